package stack

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
)

// Options of a stack. The zero value takes every default.
type Options struct {
	Name string // of its folder
	// Settings are environment variables of every Waybill process, over the stack's own.
	Settings map[string]string
	// Data is where NATS and the database keep their files; empty: the stack's folder.
	Data string
	// Routes is the folder of the route files of an all-in-one stack; empty: one without any.
	Routes string
	// StatementsFile is the file for the counts of SQLite's work per statement. An all-in-one stack writes it with the
	// program built with the tag counted (cmd/waybill/counted.go); empty: the stack runs the shipped program.
	StatementsFile string
	// APIs and Dispatchers are how many a split stack has; 0: 1 and 2.
	APIs, Dispatchers int
	// Gateways is how many a split stack has.
	Gateways int
	// Programs is the folder of the services' binaries of a split stack at its start, such as those of another
	// version; empty: those of the site.
	Programs string
	// NATSServers is how many nats-servers a split stack has; 0: 1. Several are a cluster,
	// each with a copy of everything, which it forces to the disk at once.
	NATSServers int
	// NATSUsers gives the one nats-server of a split stack the configuration that is shipped,
	// in which Waybill's processes and the publisher have users of their own. NATSURL is then
	// the publisher's, whose inbox prefix is _INBOX_publisher.
	NATSUsers bool
	// Postgres is a cluster in which a split stack makes a database; nil: a cluster of
	// its own, with PostgresSettings, which ends with the stack.
	Postgres         *pgtest.Cluster
	PostgresSettings []string
	// DatabaseURL is a database in Postgres that is there already; empty: one is made.
	DatabaseURL string
}

// Stack is a running Waybill.
type Stack struct {
	// URLs are where the APIs answer, URL is the first of them; NATSURL is where events may
	// be published on the bus, all its servers separated by commas; Key the bootstrap key.
	URL     string
	URLs    []string
	NATSURL string
	Key     string
	// NATSMonitor is where the one nats-server of a split stack tells of itself over HTTP.
	NATSMonitor string
	// GatewayAddresses are where deployments answer, each host:port of one process.
	GatewayAddresses []string

	Waybill     *Process   // all in one; nil in a split stack
	APIs        []*Process // none in an all-in-one stack, as of the following
	NATS        []*Process
	Dispatchers []*Process
	Gateways    []*Process
	Postgres    *pgtest.Cluster
	DatabaseURL string

	// Ops are the addresses of the metrics, by process name.
	Ops map[string]string

	site        *Site
	data        string
	programs    string   // where the services' binaries are
	migration   []string // the environment in which migrations run
	ownPostgres bool
}

// EncryptionKey is what every stack seals with, as it is before its base64.
const EncryptionKey = "an encryption key for tests only"

// stopTimeout is somewhat more than the 30 seconds that a process may take to stop.
const stopTimeout = 40 * time.Second

// AllInOne starts `waybill dev`: one process with SQLite and an embedded nats-server.
func (s *Site) AllInOne(ctx context.Context, options Options) (*Stack, error) {
	options.Name = cmp.Or(options.Name, "all-in-one")
	st, dir, err := s.prepare(options)
	if err != nil {
		return nil, err
	}
	httpAddr, natsAddr, opsAddr, err := s.threePorts()
	if err != nil {
		return nil, err
	}
	st.serve(httpAddr)
	st.GatewayAddresses = []string{httpAddr}
	st.NATSURL = "nats://" + natsAddr
	st.Ops["waybill"] = opsAddr
	data := filepath.Join(st.data, "waybill")
	routes := options.Routes
	if routes == "" {
		routes = filepath.Join(dir, "routes")
		if err := os.MkdirAll(routes, 0o755); err != nil {
			return nil, fmt.Errorf("make routes folder: %w", err)
		}
	}
	binary := s.binary("waybill")
	if options.StatementsFile != "" {
		binary += "-counted"
		if err := s.build(ctx, program{filepath.Base(binary), "waybill.dev/cmd/waybill"}, "-tags=counted"); err != nil {
			return nil, err
		}
	}
	st.Waybill = &Process{
		Name: "waybill", path: binary,
		args: []string{"dev", "--http", httpAddr, "--ops", opsAddr, "--nats", natsAddr, "--data", data, "--routes", routes, "--receiver", "none", "--quiet"},
		env:  st.environment(options.Settings, map[string]string{"WAYBILL_RECEIVER_ADDR": "none", "COUNT_STATEMENTS": options.StatementsFile}),
		log:  filepath.Join(dir, "waybill.log"), ready: answers(s.http, httpAddr, "/readyz"),
	}
	if err := st.Waybill.Start(ctx); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

// Split starts the services on a nats-server process and on Postgres.
func (s *Site) Split(ctx context.Context, options Options) (*Stack, error) {
	options.Name = cmp.Or(options.Name, "split")
	options.APIs = cmp.Or(options.APIs, 1)
	options.Dispatchers = cmp.Or(options.Dispatchers, 2)
	options.NATSServers = cmp.Or(options.NATSServers, 1)
	st, dir, err := s.prepare(options)
	if err != nil {
		return nil, err
	}
	if err := st.split(ctx, dir, options); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

func (s *Stack) split(ctx context.Context, dir string, options Options) error {
	if err := s.openPostgres(ctx, options); err != nil {
		return err
	}
	users := func(string) string { return s.NATSURL }
	if options.NATSUsers {
		var err error
		if users, err = s.startShippedNATS(ctx, dir); err != nil {
			return err
		}
	} else if err := s.startNATS(ctx, dir, options.NATSServers); err != nil {
		return err
	}
	env := s.environment(options.Settings, map[string]string{
		"WAYBILL_DATABASE_URL": s.DatabaseURL,
		"WAYBILL_BUS_REPLICAS": strconv.Itoa(options.NATSServers),
		"WAYBILL_EGRESS_ALLOW": "127.0.0.0/8", "WAYBILL_EGRESS_HTTP": "true",
	})
	s.migration = env
	if err := s.Migrate(ctx, s.programs); err != nil {
		return err
	}
	if err := s.addGateways(ctx, dir, options.Gateways, append(slices.Clone(env), "WAYBILL_NATS_URL="+users("gateway"))); err != nil {
		return err
	}
	if options.Gateways > 0 {
		_, port, _ := strings.Cut(s.GatewayAddresses[0], ":")
		env = append(env, "WAYBILL_GATEWAY_URL=http://gateway.localhost:"+port)
	}
	for i := range options.APIs {
		name := "waybill-api"
		if options.APIs > 1 {
			name = fmt.Sprintf("waybill-api-%d", i+1)
		}
		p, err := s.service(dir, name, "waybill-api", append(slices.Clone(env), "WAYBILL_NATS_URL="+users("api")))
		if err != nil {
			return err
		}
		s.serve(environmentValue(p.env, "WAYBILL_HTTP_ADDR"))
		s.APIs = append(s.APIs, p)
	}
	for i := range options.Dispatchers {
		p, err := s.service(dir, fmt.Sprintf("waybill-dispatcher-%d", i+1), "waybill-dispatcher",
			append(slices.Clone(env), "WAYBILL_NATS_URL="+users("dispatcher")))
		if err != nil {
			return err
		}
		s.Dispatchers = append(s.Dispatchers, p)
	}
	if err := startAll(ctx, slices.Concat(s.APIs, s.Dispatchers, s.Gateways)); err != nil {
		return err
	}
	// Until they know of each other, each takes itself for the only one.
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.AwaitDispatchers(ctx, "waybill_dispatchers_live", float64(len(s.Dispatchers)))
}

// Migrate applies the migrations of the version whose binaries are in a folder.
func (s *Stack) Migrate(ctx context.Context, programs string) error {
	return runToEnd(ctx, s.migration, filepath.Join(programs, "waybill"), "migrate", "up")
}

// addGateways prepares gateways.
func (s *Stack) addGateways(ctx context.Context, dir string, n int, env []string) error {
	if n == 0 {
		return nil
	}
	if err := s.site.buildGateway(ctx); err != nil {
		return err
	}
	if environmentValue(env, "WAYBILL_TLS_ADDR") != "" { // of the first API
		env = append(env, "WAYBILL_TLS_ADDR=127.0.0.1:0")
	}
	for i := range n {
		p, err := s.service(dir, fmt.Sprintf("waybill-gateway-%d", i+1), "waybill-gateway", env)
		if err != nil {
			return err
		}
		s.Gateways = append(s.Gateways, p)
		s.GatewayAddresses = append(s.GatewayAddresses, environmentValue(p.env, "WAYBILL_HTTP_ADDR"))
	}
	return nil
}

func (s *Stack) openPostgres(ctx context.Context, options Options) error {
	s.Postgres = options.Postgres
	if s.Postgres == nil {
		if err := os.MkdirAll(s.data, 0o755); err != nil {
			return fmt.Errorf("make data folder: %w", err)
		}
		// The server's user must reach its folder: a path that others can't enter gets a
		// folder elsewhere.
		dir := ""
		if options.Data != "" {
			dir = filepath.Join(s.data, "postgres")
		}
		cluster, err := pgtest.Start(ctx, dir, options.PostgresSettings...)
		if err != nil {
			return fmt.Errorf("start Postgres: %w", err)
		}
		s.Postgres, s.ownPostgres = cluster, true
	}
	if s.DatabaseURL = options.DatabaseURL; s.DatabaseURL != "" {
		return nil
	}
	url, err := s.Postgres.CreateDatabase(ctx, fmt.Sprintf("waybill_%d", time.Now().UnixNano()))
	if err != nil {
		return err
	}
	s.DatabaseURL = url
	return nil
}

// service prepares one of the services on ports of its own.
func (s *Stack) service(dir, name, binary string, env []string) (*Process, error) {
	httpAddr, err := s.site.port()
	if err != nil {
		return nil, err
	}
	opsAddr, err := s.site.port()
	if err != nil {
		return nil, err
	}
	s.Ops[name] = opsAddr
	return &Process{
		Name: name, path: filepath.Join(s.programs, binary),
		env: append(slices.Clone(env), "WAYBILL_HTTP_ADDR="+httpAddr, "WAYBILL_OPS_ADDR="+opsAddr),
		log: filepath.Join(dir, name+".log"), ready: answers(s.site.http, httpAddr, "/readyz"),
	}, nil
}

// serve notes where an API answers.
func (s *Stack) serve(address string) {
	s.URLs = append(s.URLs, "http://"+address)
	s.URL = s.URLs[0]
}

// prepare makes the parts that both forms have.
func (s *Site) prepare(options Options) (*Stack, string, error) {
	dir, err := s.folder(options.Name)
	if err != nil {
		return nil, "", err
	}
	st := &Stack{
		Key:  base64.RawURLEncoding.EncodeToString(domain.NewSecretBytes(32)),
		Ops:  make(map[string]string),
		site: s, data: options.Data, programs: cmp.Or(options.Programs, s.Programs()),
	}
	if st.data == "" {
		st.data = filepath.Join(dir, "data")
	}
	return st, dir, nil
}

func (s *Site) threePorts() (first, second, third string, err error) {
	var list [3]string
	for i := range list {
		if list[i], err = s.port(); err != nil {
			return "", "", "", err
		}
	}
	return list[0], list[1], list[2], nil
}

// Processes returns the stack's processes, Postgres excepted.
func (s *Stack) Processes() []*Process {
	if s.Waybill != nil {
		return []*Process{s.Waybill}
	}
	return slices.Concat(s.NATS, s.APIs, s.Dispatchers, s.Gateways)
}

// Data returns the folder in which NATS and SQLite keep their files.
func (s *Stack) Data() string { return s.data }

// Died returns an error when a process ended although nobody asked for it.
func (s *Stack) Died() error {
	var list []error
	for _, p := range s.Processes() {
		list = append(list, p.Died())
	}
	return errors.Join(list...)
}

// Logs returns the end of each process' log.
func (s *Stack) Logs() string {
	var text strings.Builder
	for _, p := range s.Processes() {
		fmt.Fprintf(&text, "--- %s (%s)\n%s\n", p.Name, p.log, p.Tail())
	}
	return text.String()
}

// LoseBus removes all that JetStream keeps; the server must have ended.
func (s *Stack) LoseBus() error {
	found := false
	err := filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "jetstream" {
			found = true
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return fs.SkipDir
		}
		if d.IsDir() && d.Name() == "postgres" {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove the JetStream folder: %w", err)
	}
	if !found {
		return fmt.Errorf("no JetStream folder below %s", s.data)
	}
	return nil
}

// Close stops every process that still runs, the services first.
func (s *Stack) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var list []error
	processes := s.Processes()
	slices.Reverse(processes)
	for _, p := range processes {
		if !p.Running() {
			continue
		}
		if code, err := p.Stop(ctx); err != nil {
			list = append(list, err)
		} else if code != 0 && !slices.Contains(s.NATS, p) {
			list = append(list, fmt.Errorf("%s exits with %d:\n%s", p.Name, code, p.Tail()))
		}
	}
	if s.ownPostgres && s.Postgres != nil {
		list = append(list, s.Postgres.Stop())
	}
	return errors.Join(list...)
}

// environment returns what a Waybill process gets.
func (s *Stack) environment(settings, own map[string]string) []string {
	all := map[string]string{
		"WAYBILL_ADMIN_KEY":      s.Key,
		"WAYBILL_ENCRYPTION_KEY": base64.StdEncoding.EncodeToString([]byte(EncryptionKey)),
	}
	maps.Copy(all, own)
	maps.Copy(all, settings)
	env := bareEnvironment()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// bareEnvironment is the environment without settings of a Waybill that may run beside.
func bareEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "WAYBILL_") || strings.HasPrefix(v, "OTEL_")
	})
}

func environmentValue(env []string, name string) string {
	for _, variable := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}
