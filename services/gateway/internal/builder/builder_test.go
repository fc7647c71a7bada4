package builder_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/builder"
	"waybill.dev/services/gateway/internal/folder"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

const canary = "hunter2-canary"

// tables are the real ones, but for what a test has instead.
type tables struct {
	*deployments.Deployments

	mu        sync.Mutex
	variables []domain.Variable
	read      func(ctx context.Context) error // nil: variables are read without trouble
	away      atomic.Int64                    // how often the end of a build fails yet
}

func (t *tables) set(variables ...domain.Variable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.variables = variables
}

func (t *tables) VariablesOf(ctx context.Context, _, _, _ string, _ domain.EnvironmentType) ([]domain.Variable, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read != nil {
		if err := t.read(ctx); err != nil {
			return nil, err
		}
	}
	return slices.Clone(t.variables), nil
}

func (t *tables) EndBuild(ctx context.Context, claim *deployments.Claim, result deployments.Result) (bool, error) {
	if t.away.Add(-1) >= 0 {
		return false, fmt.Errorf("end: %w", domain.ErrUnavailable)
	}
	return t.Deployments.EndBuild(ctx, claim, result)
}

// rig is a database and a bus, on which gateways build.
type rig struct {
	t        testing.TB
	db       *store.Store
	tables   *tables
	bus      *bus.Bus
	registry *prometheus.Registry
	logs     *gatewaytest.Logs
}

func newRig(t testing.TB, kind storetest.Kind) *rig {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	nats := bustest.Start(t)
	r := &rig{t: t, db: kind.Fresh(t).Open(t, store.Options{Keys: keys}), registry: prometheus.NewRegistry(), logs: &gatewaytest.Logs{}}
	r.tables = &tables{Deployments: deployments.New(r.db)}
	if r.bus, err = bus.Connect(bus.Options{URL: nats.URL(), Name: "gateway", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.bus.Close)
	now := r.db.Moment(r.db.Now())
	r.exec("INSERT INTO projects (id, account, name, created_at, production_branch) VALUES ('prj_1', 'default', 'shop', ?, 'main')", now)
	return r
}

func (r *rig) exec(statement string, args ...any) {
	r.t.Helper()
	if err := r.db.Writing(context.WithoutCancel(r.t.Context())).Exec(statement, args...).Error; err != nil {
		r.t.Fatalf("%s: %v", statement, err)
	}
}

func (r *rig) new(registerer prometheus.Registerer) *builder.Builder {
	return builder.New(builder.Options{
		Store: r.tables, Bus: r.bus, Rules: tenant.Rules{}, Logger: slog.New(slog.NewJSONHandler(r.logs, nil)), Registerer: registerer,
	})
}

// run runs a builder until the test ends, or until stop is called.
func (r *rig) run(b *builder.Builder) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) upload(branch string, files map[string]string) domain.Build {
	r.t.Helper()
	build, err := r.tables.Upload(r.t.Context(), deployments.Target{Account: "default", Project: "shop", Branch: branch}, pack(r.t, files), domain.ArchiveZip)
	if err != nil {
		r.t.Fatal(err)
	}
	return build
}

func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var raw bytes.Buffer
	w := zip.NewWriter(&raw)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(to, files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

func (r *rig) nudge() { r.bus.Announce(bus.SubjectGateway, nil) }

// patience is how long a test waits for what takes milliseconds.
const patience = 60 * time.Second

// ended waits for the end of a build.
func (r *rig) ended(build domain.Build) domain.Build {
	r.t.Helper()
	gatewaytest.Within(r.t, patience, "the build has ended", func() bool {
		status, err := r.tables.GetStatus(r.t.Context(), "default", "shop", build.StatusID)
		if err != nil {
			r.t.Fatal(err)
		}
		build = *status.Build
		return build.Status == domain.BuildSuccess || build.Status == domain.BuildError
	})
	return build
}

func (r *rig) log(build domain.Build) []domain.BuildLine {
	r.t.Helper()
	lines, err := r.tables.BuildLog(r.t.Context(), "default", build.Deployment, build.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return lines
}

func (r *rig) deployment(build domain.Build) deployments.DeploymentWithBuilds {
	r.t.Helper()
	found, err := r.tables.GetDeployment(r.t.Context(), "default", build.Deployment)
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// said returns a log as text, a line each.
func said(lines []domain.BuildLine) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintln(&b, strings.Join(slices.DeleteFunc([]string{l.Step, l.Level, l.File, l.Operation, l.Pointer, l.Message}, func(s string) bool { return s == "" }), " "))
	}
	return b.String()
}

func route(path, id, body string) string {
	return `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"` + path + `":{"get":{"operationId":"` + id + `",
		"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":` + body + `}}}}}}`
}

func good() map[string]string {
	return map[string]string{"a.oas.json": route("/a", "a", `{"body":"$env(WAYBILL_BRANCH)"}`), "b.oas.json": route("/b", "b", `{"file":"page.txt"}`), "page.txt": "page"}
}

// An upload is built, made the active one, and told of, step by step.
func TestBuild(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		r := newRig(t, kind)
		r.tables.set(domain.Variable{Name: "GREETING", Value: "hello"})
		var nudges atomic.Int64
		stop, err := r.bus.Listen(bus.SubjectGateway, func([]byte) { nudges.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		r.run(r.new(r.registry))
		build := r.upload("main", good())
		r.nudge()
		build = r.ended(build)
		var steps []string
		for _, s := range build.Steps {
			steps = append(steps, s.Name+" "+string(s.Status))
			if s.StartedOn.IsZero() || s.FinishedOn.Before(s.StartedOn) {
				t.Errorf("%s: from %s to %s", s.Name, s.StartedOn, s.FinishedOn)
			}
		}
		if diff := cmp.Diff([]string{"unpack SUCCESS", "variables SUCCESS", "check SUCCESS", "activate SUCCESS"}, steps); diff != "" || build.Status != domain.BuildSuccess || build.Routes != 2 || build.ActivatedOn.IsZero() {
			t.Errorf("%+v\n%s", build, diff)
		}
		want := "unpack info 3 files of 464 bytes, in an archive of 717 bytes\nvariables info 1 variable\ncheck info 2 routes in 2 route files\nactivate info build 1 is active\n"
		if diff := cmp.Diff(want, said(r.log(build))); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if d := r.deployment(build); d.State != domain.DeploymentStarted || d.ActiveBuild != build.ID {
			t.Errorf("%+v", d)
		}
		gatewaytest.Within(t, patience, "other gateways are told", func() bool { return nudges.Load() >= 2 })
		if n := testutil.CollectAndCount(r.registry, "waybill_gateway_builds_total"); n != 5 {
			t.Errorf("%d results are counted", n)
		}
		gatewaytest.Within(t, patience, "it is logged", func() bool { return strings.Contains(r.logs.String(), `"result":"success"`) })
	})
}

// What is wrong is told with the build and in its log, all of it, as a check says it; what is
// active stays.
func TestFaults(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		r := newRig(t, kind)
		r.run(r.new(r.registry))
		first := r.upload("main", good())
		r.nudge()
		r.ended(first)
		files := map[string]string{
			"a.oas.json": route("/a", "a", `{"body":"$env(MISSING)"}`),
			"b.oas.json": strings.ReplaceAll(route("/a", "b", `{"status":999,"body":""}`), "@gateway/runtime", "./modules/x"), "c.oas.json": "{",
		}
		build := r.upload("main", files)
		r.nudge()
		build = r.ended(build)
		_, faults := tenant.Rules{}.Make(t.Context(), folder.Zip, pack(t, files), &build, nil)
		var want []domain.BuildFault
		var lines []domain.BuildLine
		for _, f := range faults {
			want = append(want, domain.BuildFault{File: f.File, Operation: f.Operation, Pointer: f.Pointer, Detail: f.Message})
			lines = append(lines, domain.BuildLine{Step: "check", Level: "error", Message: f.Message, File: f.File, Operation: f.Operation, Pointer: f.Pointer})
		}
		if diff := cmp.Diff(want, build.Faults); diff != "" || build.Status != domain.BuildError || len(want) < 4 {
			t.Errorf("%s with %d faults (-want +got):\n%s", build.Status, len(want), diff)
		}
		log := r.log(build)
		if diff := cmp.Diff(lines, log[len(log)-len(lines):], cmpopts.IgnoreFields(domain.BuildLine{}, "Timestamp")); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if last := build.Steps[len(build.Steps)-1]; last.Name != "check" || last.Status != domain.BuildError || last.FinishedOn.IsZero() {
			t.Errorf("%+v", build.Steps)
		}
		d := r.deployment(build)
		if d.State != domain.DeploymentStarted || d.ActiveBuild != first.ID || !strings.HasPrefix(d.Message, "Build 2 has failed: ") {
			t.Errorf("%+v", d.Deployment)
		}
		// An archive that can't be unpacked goes no further.
		other := r.upload("other", map[string]string{"../x.oas.json": "{}"})
		r.nudge()
		other = r.ended(other)
		if len(other.Steps) != 1 || len(other.Faults) != 1 || other.Faults[0].File != "../x.oas.json" || r.deployment(other).State != domain.DeploymentErrored {
			t.Errorf("%+v", other)
		}
	})
}

// No value of a secret is told anywhere, whatever is wrong with it, not even where a route file
// happens to say the same.
func TestSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite())
	r.tables.set(domain.Variable{Name: "TOKEN", Secret: true, Value: canary}, domain.Variable{Name: "BAD", Secret: true, Value: canary + "\\ \n"}, domain.Variable{Name: "PIN", Secret: true, Value: "1"})
	r.run(r.new(r.registry))
	forward := strings.ReplaceAll(route("/f", "f", `{"baseUrl":"$env(TOKEN)"}`), "staticHandler", "urlForwardHandler")
	build := r.upload("main", map[string]string{
		"a.oas.json":              route("/a", canary, `{"body":"","contentType":"$env(BAD)","headers":{"X-A":"$env(BAD)"}}`),
		canary + "-b.oas.json":    "[]",
		"c.oas.json":              forward,
		"d.oas.json":              strings.ReplaceAll(route("/d", "d", `{"operations":[{"file":"$env(TOKEN)","id":"$env(TOKEN)"}],"name":"$env(TOKEN)"}`), "staticHandler", "mcpServerHandler"),
		"policies.json":           `{"policies":[{"name":"p","policyType":"set-headers-inbound","handler":{"module":"$import(@gateway/runtime)","export":"SetHeadersInboundPolicy","options":{"headers":[{"name":"$env(BAD)","value":"$env(TOKEN)"}]}}}]}`,
		"e" + canary + ".txt":     "x",
		"f/" + canary + "/g.json": "{}",
	})
	r.nudge()
	build = r.ended(build)
	if len(build.Faults) < 5 {
		t.Errorf("%d faults", len(build.Faults))
	}
	for what, value := range map[string]any{"build": build, "log": r.log(build), "deployment": r.deployment(build).Deployment, "process": r.logs.String()} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), canary) {
			t.Errorf("the %s tells it: %s", what, text)
		}
	}
	if !strings.Contains(said(r.log(build)), "[redacted]-b.oas.json") {
		t.Errorf("what only looks like a secret is gone: %s", said(r.log(build)))
	}
}

// The log names the variables that are not what they were.
func TestChangedVariables(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.Postgres())
	r.run(r.new(r.registry))
	r.tables.set(domain.Variable{Name: "A", Value: "1"}, domain.Variable{Name: "B", Value: "2", Secret: true}, domain.Variable{Name: "C", Value: "3"})
	build := r.upload("main", good())
	r.nudge()
	r.ended(build)
	r.tables.set(domain.Variable{Name: "A", Value: "1"}, domain.Variable{Name: "B", Value: "9", Secret: true}, domain.Variable{Name: "D", Value: "4"})
	again, err := r.tables.Redeploy(t.Context(), "default", build.Deployment, "")
	if err != nil {
		t.Fatal(err)
	}
	r.nudge()
	log := said(r.log(r.ended(again)))
	for _, want := range []string{"variables info 3 variables", "new since the active build: D", "changed since the active build: B", "removed since the active build: C"} {
		if !strings.Contains(log, want+"\n") {
			t.Errorf("not said: %s\n%s", want, log)
		}
	}
	source, err := r.tables.Source(t.Context(), build.Deployment, again.ID)
	if err != nil || len(source.Variables) != 3 || source.Variables["B"] != "9" {
		t.Errorf("%d variables are kept, %v", len(source.Variables), err)
	}
}

// Gateways share the work; of each deployment the highest number is active.
func TestManyGateways(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		r := newRig(t, kind)
		for range 3 {
			r.run(r.new(prometheus.NewRegistry()))
		}
		last := map[string]domain.Build{}
		var all []domain.Build
		for i := range 30 {
			build := r.upload(fmt.Sprint("branch-", i%4), good())
			last[build.Deployment] = build
			all = append(all, build)
			r.nudge()
		}
		for _, build := range all {
			if ended := r.ended(build); ended.Status != domain.BuildSuccess {
				t.Errorf("%+v", ended)
			}
		}
		for name, build := range last {
			if d := r.deployment(build); d.ActiveBuild != build.ID || d.State != domain.DeploymentStarted {
				t.Errorf("%s: %s is active, want %s", name, d.ActiveBuild, build.ID)
			}
		}
		var most int
		if err := r.db.Reading(t.Context()).Raw("SELECT MAX(claims) FROM gateway_builds").Scan(&most).Error; err != nil || most != 1 {
			t.Errorf("a build was begun %d times, %v", most, err)
		}
	})
}

// A build of a gateway that has gone is taken over, without any nudge; one that was begun too
// often is given up.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.Postgres())
	orphan, hopeless := r.upload("main", good()), r.upload("hopeless", good())
	for range 2 {
		if claim, err := r.tables.ClaimBuild(t.Context()); err != nil || claim == nil {
			t.Fatal(err)
		}
	}
	r.exec("UPDATE gateway_builds SET lease_until = ?, claims = CASE WHEN id = ? THEN 3 ELSE 2 END", r.db.Moment(r.db.Now().Add(-time.Second)), hopeless.ID)
	r.run(r.new(r.registry))
	if build := r.ended(orphan); build.Status != domain.BuildSuccess {
		t.Errorf("%+v", build)
	}
	if build := r.ended(hopeless); build.Status != domain.BuildError || len(build.Faults) != 1 || !strings.Contains(build.Faults[0].Detail, "begun 3 times") {
		t.Errorf("%+v", build)
	}
	// Without the bus, the poll finds what waits.
	r.bus.Close()
	if build := r.ended(r.upload("main", good())); build.Status != domain.BuildSuccess {
		t.Errorf("%+v", build)
	}
}

// A build that takes too long is a fault, and keeps no others from being built.
func TestTooLong(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite())
	slow := true
	r.tables.read = func(ctx context.Context) error {
		if slow {
			slow = false
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	b := r.new(r.registry)
	b.SetLimit(500 * time.Millisecond)
	first, second := r.upload("main", good()), r.upload("other", good())
	r.run(b)
	if build := r.ended(first); build.Status != domain.BuildError || len(build.Faults) != 1 || !strings.Contains(build.Faults[0].Detail, "longer than") {
		t.Errorf("%+v", build)
	}
	if build := r.ended(second); build.ID != second.ID {
		t.Errorf("%+v", build)
	}
}

// A gateway that ends gives its build back, and the build is none the worse for it.
func TestShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite())
	begun := make(chan struct{})
	r.tables.read = func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	build := r.upload("main", good())
	stop := r.run(r.new(r.registry))
	<-begun
	stop()
	var left struct {
		Status string
		Claims int
	}
	if err := r.db.Reading(t.Context()).Raw("SELECT status, claims FROM gateway_builds").Scan(&left).Error; err != nil || left.Status != "QUEUED" || left.Claims != 0 {
		t.Errorf("%+v, %v", left, err)
	}
	r.tables.mu.Lock()
	r.tables.read = nil
	r.tables.mu.Unlock()
	r.run(r.new(prometheus.NewRegistry()))
	if build := r.ended(build); build.Status != domain.BuildSuccess {
		t.Errorf("%+v", build)
	}
}

// What became of a build is written when the database is back. Variables that can't be read are
// a fault, of which only the operator's log tells more.
func TestTrouble(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite())
	r.tables.away.Store(2)
	build := r.upload("main", good())
	r.run(r.new(r.registry))
	if build := r.ended(build); build.Status != domain.BuildSuccess {
		t.Errorf("%+v", build)
	}
	r.tables.mu.Lock()
	r.tables.read = func(context.Context) error { return errors.New("open variable: a key is missing") }
	r.tables.mu.Unlock()
	build = r.upload("main", good())
	r.nudge()
	build = r.ended(build)
	if build.Status != domain.BuildError || len(build.Faults) != 1 || strings.Contains(build.Faults[0].Detail, "key is missing") || !strings.Contains(r.logs.String(), "key is missing") {
		t.Errorf("%+v", build)
	}
}

// Log and faults have a bound, and say what there was no room for.
func TestBoundedLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite())
	files := map[string]string{}
	for i := range 999 {
		files[fmt.Sprintf("%s/../%d", strings.Repeat("<", 180), i)] = ""
	}
	build := r.upload("main", files)
	r.run(r.new(r.registry))
	build = r.ended(build)
	log, faults := length(t, r.log(build)), length(t, build.Faults)
	if log > 256<<10 || faults > 256<<10 || log < 200<<10 {
		t.Errorf("a log of %d bytes, faults of %d", log, faults)
	}
	last := build.Faults[len(build.Faults)-1].Detail
	if want := fmt.Sprintf("%d faults more, for which there is no room here", 999-len(build.Faults)+1); last != want || !strings.Contains(said(r.log(build)), want) {
		t.Errorf("%q, want %q", last, want)
	}
}

func length(t *testing.T, value any) int {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}
