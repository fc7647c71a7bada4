package settings

import "slices"

// Role is what a process is started as; defaults and required settings depend on it.
type Role int

// The roles. Client reads WAYBILL_URL, WAYBILL_KEY and the data directory alone.
const (
	Dev Role = iota
	API
	Dispatcher
	Gateway
	Migrate
	Receiver
)

// The names of the settings, which are those of the environment variables too.
const (
	HTTPAddr      = "WAYBILL_HTTP_ADDR"
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

	DispatchMemory = "WAYBILL_DISPATCH_MEMORY"
	BodyMemory     = "WAYBILL_BODY_MEMORY"
	MaxConnections = "WAYBILL_MAX_CONNECTIONS"
	TrustedProxies = "WAYBILL_TRUSTED_PROXIES"
	PublicURL      = "WAYBILL_PUBLIC_URL"
	OpsHosts       = "WAYBILL_OPS_HOSTS"

	LogLevel  = "WAYBILL_LOG_LEVEL"
	LogFormat = "WAYBILL_LOG_FORMAT"
	Config    = "WAYBILL_CONFIG"
)

// Spec describes one setting.
type Spec struct {
	Name  string
	Flag  string // empty: it has none
	Usage string

	roles    []Role
	defaults map[Role]string // of the roles where it may be left out
	required []Role
}

// In tells whether processes of the role take the setting.
func (s Spec) In(role Role) bool { return slices.Contains(s.roles, role) }

// Default returns what holds in the role when the setting is not given.
func (s Spec) Default(role Role) string { return s.defaults[role] }

// Required tells whether a process of the role refuses to start without the setting.
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
	services, servers := []Role{API, Dispatcher, Gateway}, []Role{Dev, API, Dispatcher, Gateway}
	apis, all := []Role{Dev, API}, []Role{Dev, API, Dispatcher, Gateway, Migrate, Receiver}
	pipeline := []Role{Dev, API, Dispatcher} // those that take, send or record events
	return []Spec{
		{
			Name: HTTPAddr, Flag: "http", Usage: "where HTTP is served", roles: servers,
			defaults: map[Role]string{Dev: "127.0.0.1:8080", API: ":8080", Dispatcher: ":8081", Gateway: ":8082"},
		},
		{
			Name: OpsAddr, Flag: "ops", Usage: "where metrics and pprof are served", roles: servers,
			defaults: map[Role]string{Dev: "127.0.0.1:9090", API: ":9090", Dispatcher: ":9091", Gateway: ":9092"},
		},
		{
			Name: ReceiverAddr, Flag: "receiver", Usage: "where the built-in receiver listens; none: no receiver", roles: []Role{Dev, Receiver},
			defaults: same("127.0.0.1:8090", Dev, Receiver),
		},
		{
			Name: NATSAddr, Flag: "nats", Usage: "where the embedded NATS server listens", roles: []Role{Dev},
			defaults: same("127.0.0.1:4222", Dev),
		},
		{Name: NATSURL, Flag: "nats-url", Usage: "NATS server to use instead of the embedded one", roles: servers, required: services},
		{
			Name: DatabaseURL, Flag: "database-url", Usage: "postgres://… or sqlite:FILE; in dev a file in the data directory unless set",
			roles: []Role{Dev, API, Dispatcher, Gateway, Migrate}, required: []Role{API, Dispatcher, Gateway, Migrate},
		},
		{Name: DataDir, Flag: "data", Usage: "data directory", roles: []Role{Dev}, defaults: same("./.waybill", Dev)},
		{Name: AdminKey, Flag: "admin-key", Usage: "bootstrap API key, required while the database has no other; in dev made once and kept in the data directory", roles: apis},
		{Name: EncryptionKey, Usage: "keys that seal secrets at rest; in dev made once and kept in the data directory", roles: servers, required: services},
		{Name: RoutesDir, Flag: "routes", Usage: "directory of the route definition files", roles: apis, defaults: same("./config", apis...)},
		{
			Name: EgressAllow, Flag: "egress-allow", Usage: "CIDRs that webhook targets may resolve to although they are not public; none: nothing", roles: pipeline,
			defaults: map[Role]string{Dev: "127.0.0.0/8,::1/128", API: "none", Dispatcher: "none"},
		},
		{
			Name: EgressHTTP, Usage: "whether http:// targets are allowed", roles: pipeline,
			defaults: map[Role]string{Dev: "true", API: "false", Dispatcher: "false"},
		},
		{
			Name: RetrySchedule, Usage: "waits in seconds after each failed attempt", roles: pipeline,
			defaults: same("5,300,1800,7200,18000,36000,50400,72000,86400", pipeline...),
		},
		{Name: Retention, Usage: "how long events and the delivery log are kept", roles: pipeline, defaults: same("168h", pipeline...)},
		{Name: BusRetention, Usage: "how long the EVENTS stream keeps a message", roles: pipeline, defaults: same("72h", pipeline...)},
		{Name: DedupeWindow, Usage: "how long the bus recognises a repeated message id", roles: pipeline, defaults: same("2m", pipeline...)},
		{Name: BusReplicas, Usage: "copies of each stream in a NATS cluster", roles: pipeline, defaults: same("1", pipeline...)},
		{Name: BusMaxBytes, Usage: "how large the EVENTS stream may become; full of events that wait, it refuses further ones", roles: pipeline, defaults: same("8GiB", pipeline...)},
		{Name: DisableAfter, Usage: "after how long of nothing but failures a webhook becomes inactive", roles: pipeline, defaults: same("120h", pipeline...)},
		{Name: BodyMemory, Usage: "what bodies of requests in memory may take together, such as 64MiB or 1GiB; more is answered with 503", roles: apis, defaults: same("256MiB", apis...)},
		{
			Name: MaxConnections, Usage: "connections that each address takes at a time; one client gets a quarter of them at most",
			roles: []Role{Dev, API, Dispatcher, Gateway, Receiver}, defaults: same("4096", Dev, API, Dispatcher, Gateway, Receiver),
		},
		{Name: TrustedProxies, Usage: "CIDRs of proxies whose X-Forwarded-For, -Host and -Proto count; none: nothing", roles: servers, defaults: same("none", servers...)},
		{Name: PublicURL, Usage: "what links of the API begin with, such as https://hooks.example.com; else they are paths, or as a trusted proxy tells", roles: apis},
		{Name: OpsHosts, Usage: "names under which the ops address is asked, separated by commas, besides addresses, localhost, and names without a dot", roles: servers},
		{Name: DispatchMemory, Usage: "memory that the deliveries in hand of a dispatcher may take, at least 64MiB", roles: []Role{Dev, Dispatcher}, defaults: same("256MiB", Dev, Dispatcher)},
		{Name: RateLimit, Usage: "requests a second of one account; 0: no limit", roles: apis, defaults: same("0", apis...)},
		{Name: LogLevel, Flag: "log-level", Usage: "debug, info, warn or error", roles: all, defaults: same("info", all...)},
		{Name: LogFormat, Flag: "log-format", Usage: "text, json, or auto: text on a terminal", roles: all, defaults: same("auto", all...)},
	}
}
