package settings

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/seal"
)

// Bounds that the contract sets.
const (
	maxWaits     = 20
	minWait      = 0.05
	maxWait      = 604_800
	maxReplicas  = 5 // JetStream's own bound
	maxRateLimit = 1e9
	// Room for one batch of events.
	minBodyMemory  = 16 << 20
	minConnections = 16
	maxConnections = 1_000_000
	maxTables      = 100_000
	// With the least memory, the share of an account still has room for the routes of a plain deployment.
	minTableMemory = 64 << 20
	maxInFlight    = 100_000
	maxOfAccount   = 1_000_000_000
	minSourceBytes = 8 << 20 // one archive (domain.MaxArchive)
	// leastDispatchMemory is the least that a dispatcher can do with.
	leastDispatchMemory = 64 << 20
)

// loader reads values one after the other and collects their faults.
type loader struct {
	role    Role
	sources []Source
	faults  []error
	shown   []Given
	given   map[string]bool // settings that come from a source, not from a default
}

func (l *loader) fault(name, reason string) {
	l.faults = append(l.faults, Fault{Name: name, Reason: reason})
}

// text returns the value of a setting; empty: none in this role.
func (l *loader) text(name string) string {
	spec, _ := specOf(name)
	if !spec.UsedBy(l.role) {
		return ""
	}
	for i, source := range l.sources {
		if value, ok := source(name); ok && strings.TrimSpace(value) != "" {
			l.given[name] = true
			l.show(spec, strings.TrimSpace(value), i)
			return strings.TrimSpace(value)
		}
	}
	if spec.Required(l.role) {
		l.fault(name, "is required: "+how(spec))
	}
	l.show(spec, spec.Default(l.role), -1)
	return spec.Default(l.role)
}

// show records a value in a form that may be shown: a secret address without its user, password and query, any other
// secret as "set".
func (l *loader) show(spec Spec, value string, source int) {
	if slices.ContainsFunc(l.shown, func(g Given) bool { return g.Name == spec.Name }) {
		return // recorded already
	}
	if spec.Secret && value != "" {
		value = withoutSecrets(value)
	}
	l.shown = append(l.shown, Given{spec.Name, value, source})
}

func withoutSecrets(value string) string {
	if file, ok := strings.CutPrefix(value, "sqlite:"); ok {
		file, _, _ = strings.Cut(file, "?")
		return "sqlite:" + file
	}
	var addresses []string
	for part := range strings.SplitSeq(value, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Scheme == "" || u.Host == "" {
			return "set"
		}
		addresses = append(addresses, u.Scheme+"://"+u.Host+u.EscapedPath())
	}
	return strings.Join(addresses, ",")
}

func (l *loader) address(name string) string {
	text := l.text(name)
	if text == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		l.fault(name, fmt.Sprintf("is %q, which is not host:port, such as 127.0.0.1:8080 or :8080", text))
	}
	return text
}

func (l *loader) optionalAddress(name string) string {
	if l.text(name) == "none" {
		return ""
	}
	return l.address(name)
}

func (l *loader) natsURL() domain.Secret {
	text := l.text(NATSURL)
	if text == "" {
		return ""
	}
	for part := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			l.fault(NATSURL, "is not the URL of a NATS server, such as nats://user:password@host:4222; several are separated by commas")
			break
		}
	}
	return domain.Secret(text)
}

func (l *loader) databaseURL() domain.Secret {
	text := l.text(DatabaseURL)
	if text == "" {
		return ""
	}
	file, lite := strings.CutPrefix(text, "sqlite:")
	u, err := url.Parse(text)
	postgres := err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
	if !postgres && (!lite || file == "") {
		l.fault(DatabaseURL, "is neither postgres://user:password@host/database nor sqlite:FILE")
	}
	return domain.Secret(text)
}

func (l *loader) adminKey() domain.Secret {
	text := l.text(AdminKey)
	if text == "" {
		return ""
	}
	if !apikey.Valid(text) {
		l.fault(AdminKey, fmt.Sprintf("must have %d to %d visible ASCII characters", apikey.MinLength, apikey.MaxLength))
	}
	return domain.Secret(text)
}

func (l *loader) encryptionKey() domain.Secret {
	text := l.text(EncryptionKey)
	if text == "" {
		return ""
	}
	if _, err := seal.Parse(text); err != nil {
		l.fault(EncryptionKey, fmt.Sprintf("must be 32 bytes in base64; several keys are separated by commas: %v", err))
	}
	return domain.Secret(text)
}

func (l *loader) prefixes(name string) []netip.Prefix {
	text := l.text(name)
	if text == "" {
		return nil
	}
	allow, err := egress.ParseAllow(text)
	if err != nil {
		l.fault(name, fmt.Sprintf("must be none or CIDRs separated by commas, such as 10.1.0.0/16: %v", err))
	}
	return allow
}

// limits returns the limits of an account. The minimums are what a new account, and then a project, need.
func (l *loader) limits() domain.Limits {
	return domain.Limits{
		Projects: int64(l.integer(MaxProjects, 1, maxOfAccount)), Buckets: int64(l.integer(MaxBuckets, 4, maxOfAccount)),
		Consumers: int64(l.integer(MaxConsumers, 1, maxOfAccount)), Keys: int64(l.integer(MaxKeys, 1, maxOfAccount)),
		Managers: int64(l.integer(MaxManagers, 1, maxOfAccount)), Variables: int64(l.integer(MaxVariables, 1, maxOfAccount)),
	}
}

func (l *loader) boolean(name string) bool {
	text := l.text(name)
	if text == "" {
		return false
	}
	value, err := strconv.ParseBool(strings.ToLower(text))
	if err != nil {
		l.fault(name, fmt.Sprintf("is %q, which is neither true nor false", text))
	}
	return value
}

func (l *loader) duration(name string, least time.Duration) time.Duration {
	text := l.text(name)
	if text == "" {
		return 0
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < least {
		l.fault(name, fmt.Sprintf("is %q, which is not a duration of at least %s, such as 90s, 15m or 72h", text, least))
		return 0
	}
	return value
}

func (l *loader) schedule(name string) []time.Duration {
	text := l.text(name)
	if text == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	waits := make([]time.Duration, 0, len(parts))
	for _, part := range parts {
		seconds, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(seconds >= minWait && seconds <= maxWait) {
			l.fault(name, fmt.Sprintf("must be numbers of seconds from %g to %d, separated by commas", minWait, maxWait))
			return nil
		}
		waits = append(waits, time.Duration(math.Round(seconds*float64(time.Second))))
	}
	if len(waits) > maxWaits {
		l.fault(name, fmt.Sprintf("has %d waits; at most %d are allowed", len(waits), maxWaits))
	}
	return waits
}

func (l *loader) replicas() int {
	text := l.text(BusReplicas)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxReplicas || n%2 == 0 {
		l.fault(BusReplicas, fmt.Sprintf("is %q, which is not 1, 3 or %d", text, maxReplicas))
	}
	return n
}

// minBusBytes is the least that the stream of events may be given.
const minBusBytes = 64 << 20

// unit is a unit of size, with its suffix.
type unit struct {
	suffix string
	bytes  int64
}

func units() []unit {
	return []unit{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}
}

// size reads a number of bytes, with KiB, MiB, GiB or TiB.
func (l *loader) size(name string, least int64) int64 {
	text := l.text(name)
	if text == "" {
		return 0
	}
	for _, unit := range units() {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err == nil && n >= 0 && n <= math.MaxInt64/unit.bytes && n*unit.bytes >= least {
			return n * unit.bytes
		}
		break
	}
	l.fault(name, fmt.Sprintf("is %q, which is not a size of at least %d MiB, such as 64MiB or 1GiB", text, least>>20))
	return 0
}

func (l *loader) rate(name string) float64 {
	text := l.text(name)
	if text == "" {
		return 0
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0 && value <= maxRateLimit) {
		l.fault(name, fmt.Sprintf("is %q, which is not a number of requests a second, 0 or more", text))
		return 0
	}
	return value
}

func (l *loader) integer(name string, least, most int) int {
	text := l.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		l.fault(name, fmt.Sprintf("is %q, which is not a number from %d to %d", text, least, most))
		return 0
	}
	return n
}

// httpURL reads an absolute URL to which paths can be appended.
func (l *loader) httpURL(name, example string) string {
	text := l.text(name)
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "?#") {
		l.fault(name, "is not a URL such as "+example+", without user, query and fragment")
		return ""
	}
	return u.String()
}

// maxDomain leaves room for the name of a deployment.
const maxDomain = 253 - 64

// validDomain reports whether names of deployments fit below a name, which is in lower case. Its last label must begin
// with a letter, so that it is no IP address.
func validDomain(name string) bool {
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.Trim(label, "-") != label {
			return false
		}
	}
	last := labels[len(labels)-1][0]
	return len(name) <= maxDomain && last >= 'a' && last <= 'z'
}

// domain reads a domain.
func (l *loader) domain(name string) string {
	text := strings.ToLower(l.text(name))
	if text != "" && !validDomain(text) {
		l.fault(name, "must be a domain such as gateway.example.com")
		return ""
	}
	return text
}

// gatewayURL reads the address of the gateways.
func (l *loader) gatewayURL() string {
	const example = "https://gateway.example.com"
	text := strings.ToLower(strings.TrimRight(l.httpURL(GatewayURL, example), "/"))
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Path != "" || !validDomain(u.Hostname()) {
		l.fault(GatewayURL, "must have a scheme, a domain and a port at most, such as "+example)
		return ""
	}
	if u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" {
		u.Host = u.Hostname()
	}
	return u.String()
}

// names reads host names.
func (l *loader) names(name string) []string {
	text := l.text(name)
	if text == "" || text == "none" {
		return nil
	}
	var list []string
	for part := range strings.SplitSeq(strings.ToLower(text), ",") {
		part = strings.TrimSpace(part)
		if part == "" || strings.ContainsAny(part, ":/* ") {
			l.fault(name, "must be host names separated by commas, such as waybill.example.com, without ports")
			return nil
		}
		list = append(list, part)
	}
	return list
}

func (l *loader) level() slog.Level {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	return levels[strings.ToLower(l.choice(LogLevel, "debug", "info", "warn", "error"))]
}

func (l *loader) choice(name string, choices ...string) string {
	text := strings.ToLower(l.text(name))
	if text != "" && !slices.Contains(choices, text) {
		last := len(choices) - 1
		l.fault(name, fmt.Sprintf("is %q, which is not %s or %s", text, strings.Join(choices[:last], ", "), choices[last]))
	}
	return text
}
