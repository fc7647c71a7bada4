package rollout_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/rollout"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/storetest"
)

// large is a deployment whose routes take some MiB in memory, whatever few bytes its archive has.
func large(t *testing.T, account, project string, mebibytes int, more ...string) deploymentstest.Deployment {
	t.Helper()
	paths := more
	for i := range mebibytes {
		path := "/file" + strconv.Itoa(i)
		paths = append(paths, strings.Replace(static(path, ""), `"body":""`, `"file":"zeros.bin"`, 1))
	}
	d := deployed(t, project, paths...)
	d.Account = account
	d.Archive = packed(t, map[string]string{
		"zeros.bin": strings.Repeat("\x00", 1<<20), "routes.oas.json": strings.Replace(document, "PATHS", strings.Join(paths, ","), 1),
	})
	return d
}

// An account has a share of the memory for routes. What does not fit beside its deployments that answer requests
// is refused with a reason, and no other account's are let go of for that.
func TestMemoryOfTables(t *testing.T) {
	t.Parallel()
	held, let := make(chan struct{}, 1), make(chan struct{})
	back := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		held <- struct{}{}
		<-let
	}))
	t.Cleanup(back.Close)
	const memory = 64 << 20 // 6.4 MiB an account
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.TableMemory = memory }).run()
	r.account("acme")
	other := deployed(t, "other", static("/", "other"))
	first, second := large(t, "acme", "first", 5, forward("/back", back.URL)), large(t, "acme", "second", 5)
	for _, d := range []deploymentstest.Deployment{other, first, second} {
		d.Activate(t, r.db)
	}
	r.update()
	wants(t, "another account's", r.get(at(other), "/"), http.StatusOK, "other")
	answer := make(chan *httptest.ResponseRecorder)
	go func() { answer <- r.get(at(first), "/back") }()
	<-held
	refused := r.get(at(second), "/file0")
	wants(t, "beside one that answers", refused, http.StatusServiceUnavailable, "no room in memory")
	if refused.Header().Get("Retry-After") == "" {
		t.Error("it is not said when to come back")
	}
	close(let)
	wants(t, "held", <-answer, http.StatusOK, "")
	gatewaytest.Within(t, waitTime, "the second in the place of the first", func() bool { return r.get(at(second), "/file0").Code == http.StatusOK })
	read := r.tables.sources.Load()
	wants(t, "another account's after that", r.get(at(other), "/"), http.StatusOK, "other")
	if r.tables.sources.Load() != read {
		t.Error("another account's deployment was let go of")
	}
	wants(t, "the first again", r.get(at(first), "/file0"), http.StatusOK, "")
}

func buildOf(d deploymentstest.Deployment) *domain.Build {
	return &domain.Build{Deployment: d.Name(), Account: d.Account, Project: d.Project, Branch: d.Branch, EnvironmentType: domain.Production}
}

// The routes of one deployment that take more than the share of its account are faults of its build,
// however often a document or file is answered with.
func TestRoutesAboveTheShare(t *testing.T) {
	t.Parallel()
	rules := tenant.Rules{Egress: loopback(), Memory: rollout.ShareOf(64 << 20)}
	for _, d := range []deploymentstest.Deployment{large(t, "acme", "files", 7), documents(t, 80)} {
		made, faults := rules.Make(t.Context(), d.Format, d.Archive, buildOf(d), nil)
		if made != nil || len(faults) != 1 || !strings.Contains(faults[0].Message, "more than the 6 MiB of memory") {
			t.Errorf("%s: %v", d.Project, faults)
		}
	}
}

// documents is a deployment with so many routes that publish its route file, of 200 KB.
func documents(t *testing.T, routes int) deploymentstest.Deployment {
	t.Helper()
	paths := []string{strings.Replace(static("/", strings.Repeat("x", 100_000)), `"operationId"`, `"description":"`+strings.Repeat("y", 100_000)+`","operationId"`, 1)}
	for i := range routes {
		paths = append(paths, strings.NewReplacer(`"staticHandler"`, `"openApiSpecHandler"`, `"body":""`, `"openApiFilePath":"routes.oas.json"`).Replace(static("/doc"+strconv.Itoa(i), "")))
	}
	return deployed(t, "documents", paths...)
}

// The weight of a site is about what it takes, so that the bound is one of memory.
func TestWeight(t *testing.T) { //nolint:paralleltest // memory is the process's
	for _, d := range []deploymentstest.Deployment{large(t, "acme", "files", 20), documents(t, 40), schemas(t, 14, 900)} {
		before := inUse()
		made, faults := tenant.Rules{Egress: loopback()}.Make(t.Context(), d.Format, d.Archive, buildOf(d), nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		took := inUse() - before
		t.Logf("%s: %d bytes, weight %d", d.Project, took, made.Weight())
		if took > made.Weight()*3/2 || made.Weight() > 3*took {
			t.Errorf("%s takes %d bytes, its weight is %d", d.Project, took, made.Weight())
		}
		keep(made)
	}
}

// schemas is a deployment with so many bodies, each of so many members.
func schemas(t *testing.T, bodies, members int) deploymentstest.Deployment {
	t.Helper()
	var paths, properties []string
	for i := range members {
		properties = append(properties, `"member`+strconv.Itoa(i)+`":{"type":"string","maxLength":10}`)
	}
	for i := range bodies {
		text := strings.Replace(static("/s"+strconv.Itoa(i), "x"), `"get"`, `"post"`, 1)
		paths = append(paths, strings.NewReplacer(`"operationId"`, `"requestBody":{"content":{"application/json":{"schema":{"properties":{`+strings.Join(properties, ",")+`}}}}},"operationId"`,
			`"handler"`, `"policies":{"inbound":["v"]},"handler"`).Replace(text))
	}
	return withPolicies(t, "acme", "schemas", `{"policyType":"request-validation-inbound","name":"v","handler":{"module":"$import(@gateway/runtime)","export":"RequestValidationInboundPolicy","options":{"validateBody":"reject-and-log"}}}`, paths...)
}

// inUse returns the memory that is in use once nothing more can be let go of.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func keep(s *site.Site) { runtime.KeepAlive(s) }

// A deployment whose routes were let go of, and are loaded again, goes on with the counts of its rate limits.
func TestCountsOutliveTables(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.Tables = 1 }).run()
	limited, other := withPolicies(t, "default", "a", onceAMinute, guarded("/", "limit")), deployed(t, "other", static("/", "other"))
	limited.Activate(t, r.db)
	other.Activate(t, r.db)
	r.update()
	wants(t, "the first", r.get(at(limited), "/"), http.StatusOK, "")
	wants(t, "another deployment", r.get(at(other), "/"), http.StatusOK, "other")
	read := r.tables.sources.Load()
	wants(t, "loaded again", r.get(at(limited), "/"), http.StatusTooManyRequests, "")
	if r.tables.sources.Load() == read {
		t.Error("the routes were not let go of")
	}
}
