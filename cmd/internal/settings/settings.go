package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

// Settings are the settings of one process. Those that its role does not use are zero.
type Settings struct {
	Role         Role
	HTTPAddr     string
	TLSAddr      string // empty: no TLS
	TLSCert      string // files; empty: none
	TLSKey       string
	OpsAddr      string
	ReceiverAddr string // empty: no receiver
	// ReceiverGiven says that ReceiverAddr is not the default. Only the default may be replaced by
	// another port.
	ReceiverGiven bool
	NATSAddr      string
	NATSURL       domain.Secret // may carry a password; empty: the embedded server
	DatabaseURL   domain.Secret // may carry a password; empty: a file in DataDir
	DataDir       string
	AdminKey      domain.Secret // empty: the one in DataDir
	EncryptionKey domain.Secret // empty: the one in DataDir
	RoutesDir     string
	// RoutesDirGiven says that RoutesDir is not the default, which may be missing.
	RoutesDirGiven bool
	EgressAllow    []netip.Prefix
	EgressHTTP     bool
	RetrySchedule  []time.Duration
	Retention      time.Duration
	BusRetention   time.Duration
	DedupeWindow   time.Duration
	BusReplicas    int
	BusMaxBytes    int64
	DisableAfter   time.Duration
	DispatchMemory int64   // bytes
	RateLimit      float64 // requests a second of one account; 0: none

	RequestLogRate      float64 // requests a second that are kept in the log
	RequestLogRetention time.Duration

	BodyMemory     int64 // bytes
	MaxConnections int   // for each listener
	TrustedProxies []netip.Prefix
	PublicURL      string   // without a slash at its end
	OpsHosts       []string // in lower case
	GatewayDomain  string   // in lower case
	SourceBytes    int64
	Limits         domain.Limits
	GatewayURL     string // scheme, domain and port; empty: not known
	OIDCIssuer     string // empty: no sign-in by OIDC
	OIDCClientID   string
	OIDCSecret     domain.Secret
	LogLevel       slog.Level
	LogFormat      string // auto, text or json

	DomainVerification string // dns or none
	ACMEDirectory      string // empty: no authority
	ACMEEmail          string
	ACMECA             string // a file; empty: the system's
	GatewayEgressAllow []netip.Prefix
	GatewayTables      int // deployments
	GatewayTableMemory int64
	GatewayInFlight    int // requests of one deployment

	// Given lists every setting of the role, including defaults, in a form that may be shown.
	Given []Given
}

// Given is the value of a setting in a form that may be shown, and its source.
type Given struct {
	Name  string
	Value string // a secret only as "set", or as its address without user and parameters; empty: no value
	// Source is the index of the source with the value; -1: it is the default.
	Source int
}

// Source gives the value of a setting by its name. An empty value counts as none.
type Source func(name string) (value string, ok bool)

// Fault is a setting that can't be used, with the reason. The reason never has the value
// of a secret.
type Fault struct{ Name, Reason string }

func (f Fault) Error() string { return f.Name + " " + f.Reason }

// Load reads the settings of role. Earlier sources take precedence over later ones, and all of them over
// the default. The error joins every Fault.
//
//nolint:funlen // a list
func Load(role Role, sources ...Source) (Settings, error) {
	l := loader{role: role, sources: sources, given: make(map[string]bool)}
	s := Settings{
		Role:           role,
		HTTPAddr:       l.address(HTTPAddr),
		TLSAddr:        l.optionalAddress(TLSAddr),
		TLSCert:        l.text(TLSCert),
		TLSKey:         l.text(TLSKey),
		OpsAddr:        l.address(OpsAddr),
		ReceiverAddr:   l.optionalAddress(ReceiverAddr),
		NATSAddr:       l.address(NATSAddr),
		NATSURL:        l.natsURL(),
		DatabaseURL:    l.databaseURL(),
		DataDir:        l.text(DataDir),
		AdminKey:       l.adminKey(),
		EncryptionKey:  l.encryptionKey(),
		RoutesDir:      l.text(RoutesDir),
		EgressAllow:    l.prefixes(EgressAllow),
		EgressHTTP:     l.boolean(EgressHTTP),
		RetrySchedule:  l.schedule(RetrySchedule),
		Retention:      l.duration(Retention, time.Hour),
		BusRetention:   l.duration(BusRetention, time.Minute),
		DedupeWindow:   l.duration(DedupeWindow, time.Second),
		BusReplicas:    l.replicas(),
		BusMaxBytes:    l.size(BusMaxBytes, minBusBytes),
		DisableAfter:   l.duration(DisableAfter, time.Minute),
		DispatchMemory: l.size(DispatchMemory, leastDispatchMemory),
		RateLimit:      l.rate(RateLimit),

		RequestLogRate:      l.rate(RequestLogRate),
		RequestLogRetention: l.duration(RequestLogRetention, time.Hour),

		BodyMemory:     l.size(BodyMemory, minBodyMemory),
		MaxConnections: l.integer(MaxConnections, minConnections, maxConnections),
		TrustedProxies: l.prefixes(TrustedProxies),
		PublicURL:      strings.TrimRight(l.httpURL(PublicURL, "https://hooks.example.com"), "/"),
		GatewayDomain:  l.domain(GatewayDomain),
		GatewayURL:     l.gatewayURL(),
		SourceBytes:    l.size(SourceBytes, minSourceBytes),
		Limits:         l.limits(),
		OIDCIssuer:     l.httpURL(OIDCIssuer, "https://id.example.com"),
		OIDCClientID:   l.text(OIDCClientID),
		OIDCSecret:     domain.Secret(l.text(OIDCClientSecret)),
		OpsHosts:       l.names(OpsHosts),
		LogLevel:       l.level(),
		LogFormat:      l.choice(LogFormat, "auto", "text", "json"),

		DomainVerification: l.choice(DomainVerification, "dns", "none"),
		ACMEDirectory:      l.httpURL(ACMEDirectory, "https://acme-v02.api.letsencrypt.org/directory"),
		ACMEEmail:          l.text(ACMEEmail),
		ACMECA:             l.text(ACMECA),
		GatewayEgressAllow: l.prefixes(GatewayEgressAllow),
		GatewayTables:      l.integer(GatewayTables, 1, maxTables),
		GatewayTableMemory: l.size(GatewayTableMemory, minTableMemory),
		GatewayInFlight:    l.integer(GatewayInFlight, 1, maxInFlight),
	}
	if u, err := url.Parse(s.GatewayURL); err == nil && s.GatewayURL != "" && s.GatewayDomain != "" && !l.given[GatewayDomain] {
		s.GatewayDomain = u.Hostname()
	}
	s.Given = l.shown
	s.RoutesDirGiven, s.ReceiverGiven = l.given[RoutesDir], l.given[ReceiverAddr]
	l.together(s)
	return s, errors.Join(l.faults...)
}

// together checks settings that depend on each other.
func (l *loader) together(s Settings) {
	if l.given[RetrySchedule] && s.RetrySchedule != nil && s.Retention > 0 {
		var sum time.Duration
		for _, wait := range s.RetrySchedule {
			sum += wait
		}
		if sum >= s.Retention {
			l.fault(RetrySchedule, fmt.Sprintf("adds up to %s, which must be below %s (%s)", sum, Retention, s.Retention))
		}
	}
	l.tls(s)
	if s.OIDCIssuer != "" && s.OIDCClientID == "" {
		l.fault(OIDCClientID, "is required when "+OIDCIssuer+" is set")
	}
	if u, err := url.Parse(s.GatewayURL); err == nil && s.GatewayURL != "" && s.GatewayDomain != "" && u.Hostname() != s.GatewayDomain {
		l.fault(GatewayURL, fmt.Sprintf("has the domain %s, which must be %s (%s)", u.Hostname(), GatewayDomain, s.GatewayDomain))
	}
	if s.BusRetention > 0 && s.DedupeWindow > s.BusRetention {
		l.fault(DedupeWindow, fmt.Sprintf("is %s, which must not exceed %s (%s)", s.DedupeWindow, BusRetention, s.BusRetention))
	}
}

// tls checks the settings of TLS. The API's only certificate is that of the files.
func (l *loader) tls(s Settings) {
	switch {
	case s.TLSCert != "" && s.TLSKey == "":
		l.fault(TLSKey, "is required when "+TLSCert+" is set")
	case s.TLSKey != "" && s.TLSCert == "":
		l.fault(TLSCert, "is required when "+TLSKey+" is set")
	case s.TLSAddr != "" && s.TLSCert == "" && s.Role == API:
		l.fault(TLSCert, "is required when "+TLSAddr+" is set")
	}
}

// Flags returns the settings of role that are flags too.
func Flags(role Role) []Spec {
	var flags []Spec
	for _, spec := range Specs() {
		if spec.Flag != "" && spec.UsedBy(role) {
			flags = append(flags, spec)
		}
	}
	return flags
}

// MadeFrom returns a source of fixed values.
func MadeFrom(values map[string]string) Source {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

// how describes how to set a setting.
func how(spec Spec) string {
	if spec.Flag == "" {
		return "set it in the environment or in the file of " + Config
	}
	return "set it in the environment or by --" + spec.Flag
}

// Default returns the value of a setting in a role if it is not set.
func Default(name string, role Role) string {
	spec, _ := specOf(name)
	return spec.Default(role)
}

func specOf(name string) (Spec, bool) {
	for _, spec := range Specs() {
		if strings.EqualFold(spec.Name, name) {
			return spec, true
		}
	}
	return Spec{}, false
}
