package settings

import "slices"

// Role is the role of a process. Defaults and required settings depend on it.
type Role int

// The roles. Client reads WAYBILL_URL, WAYBILL_KEY and the data directory alone.
const (
	Dev Role = iota
	API
	Dispatcher
	Gateway
	Migrate
	Receiver
	Backup
	Trial // a receiver alone
)

// The names of the settings, which are also the names of the environment variables.
const (
	HTTPAddr      = "WAYBILL_HTTP_ADDR"
	TLSAddr       = "WAYBILL_TLS_ADDR"
	TLSCert       = "WAYBILL_TLS_CERT"
	TLSKey        = "WAYBILL_TLS_KEY"
	OpsAddr       = "WAYBILL_OPS_ADDR"
	ReceiverAddr  = "WAYBILL_RECEIVER_ADDR"
	NATSAddr      = "WAYBILL_NATS_ADDR"
	NATSURL       = "WAYBILL_NATS_URL"
	DatabaseURL   = "WAYBILL_DATABASE_URL"
	DataDir       = "WAYBILL_DATA_DIR"
	AdminKey      = "WAYBILL_ADMIN_KEY"
	EncryptionKey = "WAYBILL_ENCRYPTION_KEY"
	RoutesDir     = "WAYBILL_ROUTES_DIR"
	EgressAllow   = "WAYBILL_EGRESS_ALLOW"
	EgressHTTP    = "WAYBILL_EGRESS_HTTP"
	RetrySchedule = "WAYBILL_RETRY_SCHEDULE"
	Retention     = "WAYBILL_RETENTION"
	BusRetention  = "WAYBILL_BUS_RETENTION"
	DedupeWindow  = "WAYBILL_DEDUPE_WINDOW"
	BusReplicas   = "WAYBILL_BUS_REPLICAS"
	BusMaxBytes   = "WAYBILL_BUS_MAX_BYTES"
	DisableAfter  = "WAYBILL_DISABLE_AFTER"
	RateLimit     = "WAYBILL_RATE_LIMIT"

	RequestLogRate      = "WAYBILL_REQUEST_LOG_RATE"
	RequestLogRetention = "WAYBILL_REQUEST_LOG_RETENTION"

	DispatchMemory = "WAYBILL_DISPATCH_MEMORY"
	BodyMemory     = "WAYBILL_BODY_MEMORY"
	MaxConnections = "WAYBILL_MAX_CONNECTIONS"
	TrustedProxies = "WAYBILL_TRUSTED_PROXIES"
	PublicURL      = "WAYBILL_PUBLIC_URL"
	OpsHosts       = "WAYBILL_OPS_HOSTS"

	GatewayDomain = "WAYBILL_GATEWAY_DOMAIN"
	GatewayURL    = "WAYBILL_GATEWAY_URL"
	SourceBytes   = "WAYBILL_SOURCES_BYTES"

	MaxProjects  = "WAYBILL_MAX_PROJECTS"
	MaxBuckets   = "WAYBILL_MAX_BUCKETS"
	MaxConsumers = "WAYBILL_MAX_CONSUMERS"
	MaxKeys      = "WAYBILL_MAX_KEYS"
	MaxManagers  = "WAYBILL_MAX_MANAGERS"
	MaxVariables = "WAYBILL_MAX_VARIABLES"

	DomainVerification = "WAYBILL_DOMAIN_VERIFICATION"
	ACMEDirectory      = "WAYBILL_ACME_DIRECTORY"
	ACMEEmail          = "WAYBILL_ACME_EMAIL"
	ACMECA             = "WAYBILL_ACME_CA"

	GatewayEgressAllow = "WAYBILL_GATEWAY_EGRESS_ALLOW"
	GatewayTables      = "WAYBILL_GATEWAY_TABLES"
	GatewayTableMemory = "WAYBILL_GATEWAY_TABLE_MEMORY"
	GatewayInFlight    = "WAYBILL_GATEWAY_IN_FLIGHT"

	OIDCIssuer       = "WAYBILL_OIDC_ISSUER"
	OIDCClientID     = "WAYBILL_OIDC_CLIENT_ID"
	OIDCClientSecret = "WAYBILL_OIDC_CLIENT_SECRET" //nolint:gosec // the name of a setting

	LogLevel  = "WAYBILL_LOG_LEVEL"
	LogFormat = "WAYBILL_LOG_FORMAT"
	Config    = "WAYBILL_CONFIG"
)

// Spec describes one setting.
type Spec struct {
	Name  string
	Flag  string // empty: none
	Usage string
	// Secret says that the value is never shown, or only without its secret parts.
	Secret bool

	roles    []Role
	defaults map[Role]string // for the roles in which it may be left out
	required []Role
}

// UsedBy reports whether processes of the role use the setting.
func (s Spec) UsedBy(role Role) bool { return slices.Contains(s.roles, role) }

// Default returns the default in the role.
func (s Spec) Default(role Role) string { return s.defaults[role] }

// Required reports whether a process of the role refuses to start without the setting.
func (s Spec) Required(role Role) bool { return slices.Contains(s.required, role) }

// same returns one default for several roles.
func same(value string, roles ...Role) map[Role]string {
	defaults := make(map[Role]string, len(roles))
	for _, role := range roles {
		defaults[role] = value
	}
	return defaults
}

// Specs returns every setting.
func Specs() []Spec {
	services, servers, apis := []Role{API, Dispatcher, Gateway}, []Role{Dev, API, Dispatcher, Gateway}, []Role{Dev, API}
	all := []Role{Dev, API, Dispatcher, Gateway, Migrate, Receiver, Backup}
	pipeline := []Role{Dev, API, Dispatcher} // roles that accept, send or record events
	specs := []Spec{
		{
			Name: HTTPAddr, Flag: "http", Usage: "address of the HTTP server: the API, deployments, or health of a dispatcher", roles: servers,
			defaults: map[Role]string{Dev: "127.0.0.1:8080", API: ":8080", Dispatcher: ":8081", Gateway: ":8082"},
		},
		{
			Name: OpsAddr, Flag: "ops", Usage: "address of metrics and pprof", roles: servers,
			defaults: map[Role]string{Dev: "127.0.0.1:9090", API: "127.0.0.1:9090", Dispatcher: "127.0.0.1:9091", Gateway: "127.0.0.1:9092"},
		},
		{
			Name: ReceiverAddr, Flag: "receiver", Usage: "address of the built-in receiver; none: no receiver", roles: []Role{Dev, Receiver},
			defaults: same("127.0.0.1:8090", Dev, Receiver),
		},
		{
			Name: NATSAddr, Flag: "nats", Usage: "address of the embedded NATS server", roles: []Role{Dev},
			defaults: same("127.0.0.1:4222", Dev),
		},
		{Name: NATSURL, Secret: true, Flag: "nats-url", Usage: "NATS server to use instead of the embedded one", roles: servers, required: services},
		{
			Name: DatabaseURL, Secret: true, Flag: "database-url", Usage: "postgres://… or sqlite:FILE; without it, dev uses a file in the data directory",
			roles: []Role{Dev, API, Dispatcher, Gateway, Migrate, Backup}, required: []Role{API, Dispatcher, Gateway, Migrate},
		},
		{Name: DataDir, Flag: "data", Usage: "data directory", roles: []Role{Dev, Backup}, defaults: same("./.waybill", Dev, Backup)},
		{Name: AdminKey, Secret: true, Flag: "admin-key", Usage: "bootstrap API key, required while the database has no other key; dev makes one and keeps it in the data directory", roles: apis},
		{Name: EncryptionKey, Secret: true, Usage: "keys for secrets in the database, separated by commas: the first encrypts, all decrypt; dev makes one and keeps it in the data directory", roles: []Role{Dev, API, Dispatcher, Gateway, Backup}, required: services},
		{Name: RoutesDir, Flag: "routes", Usage: "directory of the route definition files", roles: apis, defaults: same("./config", apis...)},
		{
			Name: EgressAllow, Flag: "egress-allow", Usage: "CIDRs of non-public addresses that callbacks may go to; none: no such address", roles: []Role{Dev, API, Dispatcher, Trial},
			defaults: map[Role]string{Dev: "127.0.0.0/8,::1/128", API: "none", Dispatcher: "none", Trial: "none"},
		},
		{
			Name: EgressHTTP, Usage: "whether callbacks, and requests of deployments to back ends, may go to http:// URLs", roles: []Role{Dev, API, Dispatcher, Gateway, Trial},
			defaults: map[Role]string{Dev: "true", API: "false", Dispatcher: "false", Gateway: "false", Trial: "false"},
		},
		{
			Name: RetrySchedule, Usage: "waits in seconds after each failed attempt", roles: pipeline,
			defaults: same("5,300,1800,7200,18000,36000,50400,72000,86400", pipeline...),
		},
		{Name: Retention, Usage: "how long events and the delivery log are kept", roles: pipeline, defaults: same("168h", pipeline...)},
		{Name: BusRetention, Usage: "how long the EVENTS stream keeps a message", roles: pipeline, defaults: same("72h", pipeline...)},
		{Name: DedupeWindow, Usage: "how long the bus recognises a repeated message id", roles: pipeline, defaults: same("2m", pipeline...)},
		{Name: BusReplicas, Usage: "copies of each stream in a NATS cluster", roles: pipeline, defaults: same("1", pipeline...)},
		{Name: BusMaxBytes, Usage: "largest size of the EVENTS stream; when waiting events fill it, it refuses new ones", roles: pipeline, defaults: same("8GiB", pipeline...)},
		{Name: DisableAfter, Usage: "how long a webhook may fail without a success before it becomes inactive", roles: pipeline, defaults: same("120h", pipeline...)},
		{Name: BodyMemory, Usage: "memory for all request bodies together, such as 64MiB or 1GiB; requests above it are answered with 503", roles: []Role{Dev, API, Gateway}, defaults: same("256MiB", Dev, API, Gateway)},
		{
			Name: MaxConnections, Usage: "most open connections of each address; one client may have a quarter of them",
			roles: []Role{Dev, API, Dispatcher, Gateway, Receiver}, defaults: same("4096", Dev, API, Dispatcher, Gateway, Receiver),
		},
		{Name: TrustedProxies, Usage: "CIDRs of proxies whose X-Forwarded-For, -Host and -Proto are trusted; none: no proxy", roles: servers, defaults: same("none", servers...)},
		{Name: PublicURL, Usage: "beginning of all links of the API and in alerts, such as https://hooks.example.com; without it, links are paths, or those of the API use what a trusted proxy sends", roles: pipeline},
	}
	return slices.Concat(specs, encrypted(), deployments(apis), signIn(apis), process(apis, servers, all))
}

// encrypted returns the settings of TLS.
func encrypted() []Spec {
	serving := []Role{Dev, API, Gateway}
	return []Spec{
		{
			Name: TLSAddr, Flag: "tls", Usage: "address of HTTPS, with HTTP/2, besides that of HTTP; none: no TLS", roles: serving,
			defaults: same("none", serving...),
		},
		{Name: TLSCert, Flag: "tls-cert", Usage: "file of the operator's certificate and those between it and its authority, PEM; it is read again when it changes", roles: serving},
		{Name: TLSKey, Secret: true, Flag: "tls-key", Usage: "file of its private key, PEM", roles: serving},
	}
}

// process returns the settings for the limits and the logs of a process.
func process(apis, servers, all []Role) []Spec {
	serving := []Role{Dev, API, Gateway} // roles that serve deployments
	return []Spec{
		{Name: OpsHosts, Usage: "host names that the ops address answers to, separated by commas, besides IP addresses, localhost, and names without a dot", roles: servers},
		{Name: DispatchMemory, Usage: "memory for the deliveries that a dispatcher has in flight, at least 64MiB", roles: []Role{Dev, Dispatcher}, defaults: same("256MiB", Dev, Dispatcher)},
		{Name: RequestLogRate, Usage: "requests of deployments a second that a process keeps in the log; all are counted", roles: serving, defaults: same("200", serving...)},
		{Name: RequestLogRetention, Usage: "how long the log of requests of deployments is kept", roles: serving, defaults: same("24h", serving...)},
		{Name: RateLimit, Usage: "requests a second for each account; 0: no limit", roles: apis, defaults: same("0", apis...)},
		{Name: LogLevel, Flag: "log-level", Usage: "debug, info, warn or error", roles: all, defaults: same("info", all...)},
		{Name: LogFormat, Flag: "log-format", Usage: "text, json, or auto: text on a terminal", roles: all, defaults: same("auto", all...)},
	}
}

// deployments returns the settings for the addresses of deployments, and for the gateways that
// serve them.
func deployments(apis []Role) []Spec {
	gateways := []Role{Dev, Gateway}
	return []Spec{
		{
			Name: GatewayDomain, Usage: "domain below which each deployment has a name", roles: gateways,
			defaults: same("gateway.localhost", gateways...),
		},
		{
			Name:  GatewayURL,
			Usage: "where gateways answer, as users see it: scheme, domain and port, such as https://gateway.example.com; without it, the API can't tell the URLs of deployments, but dev can",
			roles: apis,
		},
		{Name: SourceBytes, Usage: "archives of routes that an account may keep in the database, such as 1GiB", roles: apis, defaults: same("1GiB", apis...)},
		{Name: MaxProjects, Usage: "projects that an account may have", roles: apis, defaults: same("50000", apis...)},
		{Name: MaxBuckets, Usage: "key buckets that an account may have", roles: apis, defaults: same("200000", apis...)},
		{Name: MaxConsumers, Usage: "consumers that an account may have", roles: apis, defaults: same("2000000", apis...)},
		{Name: MaxKeys, Usage: "API keys that an account may have, those that have ended too", roles: apis, defaults: same("5000000", apis...)},
		{Name: MaxManagers, Usage: "managers that an account may have", roles: apis, defaults: same("100000", apis...)},
		{Name: MaxVariables, Usage: "variables that an account may have; a branch has up to 100", roles: apis, defaults: same("100000", apis...)},
		{
			Name: DomainVerification, Usage: "how an account shows that a custom domain is its own: dns, by a TXT record, or none: who comes first has it", roles: apis,
			defaults: map[Role]string{Dev: "none", API: "dns"},
		},
		{Name: ACMEDirectory, Usage: "directory URL of the certificate authority that gives certificates for custom domains, by ACME; to set it is to agree to the authority's terms; without it, nobody is asked", roles: gateways},
		{Name: ACMEEmail, Usage: "email address that the authority may write to", roles: gateways},
		{Name: ACMECA, Usage: "file of the certificates by which the authority's own address is trusted, PEM; without it, those of the system", roles: gateways},
		{
			Name: GatewayEgressAllow, Flag: "gateway-egress-allow", Usage: "CIDRs of non-public addresses that back ends of deployments may have; none: no such address", roles: gateways,
			defaults: map[Role]string{Dev: "127.0.0.0/8,::1/128", Gateway: "none"},
		},
		{Name: GatewayTables, Usage: "how many deployments have their routes in memory; beyond that, those of the account that has most give way", roles: gateways, defaults: same("1000", gateways...)},
		{
			Name:  GatewayTableMemory,
			Usage: "memory for the routes of deployments, such as 512MiB; those of one account may take a tenth of it, and the ones used least recently give way",
			roles: gateways, defaults: same("512MiB", gateways...),
		},
		{Name: GatewayInFlight, Usage: "requests of one deployment that are served at a time; those above it are answered with 503", roles: gateways, defaults: same("512", gateways...)},
	}
}

// signIn returns the settings for the provider that signs people in to the console, in addition to
// keys.
func signIn(apis []Role) []Spec {
	return []Spec{
		{Name: OIDCIssuer, Usage: "OpenID Connect provider that signs managers in to the console and whose access tokens /mcp takes, such as https://id.example.com; without it, keys alone do", roles: apis},
		{Name: OIDCClientID, Usage: "the console's client id at that provider; the redirect URI there is /console/oidc/callback below the public URL", roles: apis},
		{Name: OIDCClientSecret, Secret: true, Usage: "the console's client secret at that provider", roles: apis},
	}
}
