package settings

import (
	"errors"
	"slices"
	"strings"
)

const prefix = "WAYBILL_"

// clientNames returns the variables of commands that call an installation. They may also be set in the
// environment of a server process, because both are often started from one shell.
func clientNames() []string {
	return []string{
		"WAYBILL_SERVER", "WAYBILL_URL", "WAYBILL_KEY", "WAYBILL_OUTPUT", "WAYBILL_QUIET", "WAYBILL_CONTEXTS",
		"WAYBILL_WEBHOOK_SECRET", "WAYBILL_TUNNEL_TOKEN", "WAYBILL_TUNNEL_GATEWAY",
		"WAYBILL_DEMO_SERVER", "WAYBILL_DEMO_KEY", "WAYBILL_DEMO_NATS_URL", "WAYBILL_DEMO_RECEIVER_ADDR", "WAYBILL_DEMO_RECEIVER_URL",
	}
}

// Unknown returns a fault for each variable of an environment of NAME=value that begins like Waybill's
// variables but is not one: most such names are misspelt, and the default would be used silently. No
// value is shown.
func Unknown(environment []string) error {
	known := append(clientNames(), Config)
	for _, spec := range Specs() {
		known = append(known, spec.Name)
	}
	var faults []error
	for _, pair := range environment {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) {
			continue
		}
		reason := "is in the environment, but is no setting"
		rest := strings.TrimPrefix(name, prefix)
		if meant := nearestRest(rest, known); meant != "" {
			reason += "; did you mean " + meant + "?"
		}
		faults = append(faults, Fault{Name: name, Reason: reason})
	}
	return errors.Join(faults...)
}

// nearestRest returns the known name with the most similar rest: the common beginning of all names says
// nothing.
func nearestRest(rest string, known []string) string {
	var ends []string
	for _, name := range known {
		ends = append(ends, strings.ToLower(strings.TrimPrefix(name, prefix)))
	}
	if end := Nearest(rest, ends); end != "" {
		return prefix + strings.ToUpper(end)
	}
	return ""
}
