package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/shared/judge"
)

// checkSettings reports settings with which no process would start.
func (s *site) checkSettings(context.Context) []judge.Finding {
	var found []judge.Finding
	for _, fault := range faults(s.Faults) {
		found = append(found, judge.Bad(fault.Error(), "A process with these settings does not start.", "change the setting where it is given; docs/operators.md lists all"))
	}
	if len(found) > 0 {
		return found
	}
	given := 0
	for _, g := range s.Settings.Given {
		if g.Source >= 0 {
			given++
		}
	}
	found = one(judge.Good(fmt.Sprintf("%d are set, %d have their default, in the environment of this command", given, len(s.Settings.Given)-given), "Every setting can be used. --verbose lists them with their sources. A process that runs elsewhere has an environment of its own: run doctor there, or name its file with --config."))
	if s.Settings.Role == settings.Dev && !s.held && s.Settings.DatabaseURL == "" {
		if _, err := os.Stat(s.Settings.DataDir); err != nil {
			found = append(found, judge.Bad("there is no data directory "+s.Settings.DataDir, "Nothing was ever started here, or these are not the settings of your installation.",
				"name the directory with --data, or give the settings of the services in the environment or with --config"))
		}
	}
	return found
}

// faults takes joined errors apart.
func faults(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// otherVariables returns the variables that commands read and processes do not.
func otherVariables() []string {
	return []string{
		settings.Config, "WAYBILL_SERVER", "WAYBILL_KEY", "WAYBILL_OUTPUT", "WAYBILL_QUIET", "WAYBILL_WEBHOOK_SECRET", "WAYBILL_TUNNEL_GATEWAY", "WAYBILL_TUNNEL_TOKEN",
	}
}

// checkEnvironment finds variables that nothing reads, most often misspelt ones.
func (s *site) checkEnvironment(context.Context) []judge.Finding {
	var found []judge.Finding
	for _, variable := range s.Environ {
		name, _, _ := strings.Cut(variable, "=")
		known := slices.ContainsFunc(settings.Specs(), func(spec settings.Spec) bool { return spec.Name == name })
		if strings.HasPrefix(name, "WAYBILL_") && !known && !slices.Contains(otherVariables(), name) {
			found = append(found, judge.Warn(name+" is set in the environment of this command, and is not a setting", "Nothing reads it; it may be a misspelt name, and then the default holds.", "correct the name or remove it"))
		}
	}
	if len(found) == 0 {
		return one(judge.Good("no unknown variable in the environment of this command", "Every WAYBILL_ variable is read by something."))
	}
	return found
}
