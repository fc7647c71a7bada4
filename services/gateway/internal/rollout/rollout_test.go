package rollout_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/rollout"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/storetest"
)

// wants checks an answer.
func wants(t *testing.T, what string, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || body != "" && !strings.Contains(w.Body.String(), body) {
		t.Errorf("%s: %d %s, want %d %s", what, w.Code, w.Body, status, body)
	}
}

// A Host decides alone: a deployment answers with its own routes and nothing of ours, and what
// is not there is told by nothing but 404.
func TestHosts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		r := newRig(t, kind, nil)
		shop, broken, building, gone := deployed(t, "shop", static("/who", "shop")), deployed(t, "broken"), deployed(t, "building"), deployed(t, "gone", static("/who", "gone"))
		early := r.get(at(shop), "/who")
		wants(t, "before anything is known", early, http.StatusServiceUnavailable, "")
		r.run()
		shop.Activate(t, r.db)
		broken.Set(t, r.db, domain.DeploymentErrored)
		building.Set(t, r.db, domain.DeploymentBuilding)
		gone.Activate(t, r.db)
		r.update()
		wants(t, "one that is removed later", r.get(at(gone), "/who"), http.StatusOK, "gone")
		gone.Remove(t, r.db)
		r.update()
		for _, host := range []string{at(shop), strings.ToUpper(at(shop)), at(shop) + ".", at(shop) + ":8080", strings.ToUpper(at(shop)) + ".:443"} {
			wants(t, host, r.get(host, "/who", "X-Forwarded-Host", at(gone)), http.StatusOK, "shop")
			wants(t, host+" /healthz", r.get(host, "/healthz"), http.StatusNotFound, "NOT_FOUND")
		}
		for _, host := range []string{at(broken), at(gone), "nobody.gateway.test", "x." + at(shop), ".gateway.test", "shop@" + at(shop), at(shop)[1:]} {
			w := r.get(host, "/who", "X-Forwarded-Host", at(shop))
			wants(t, host, w, http.StatusNotFound, `"detail":"There is no such resource."`)
		}
		w := r.get(at(building), "/who")
		if wants(t, "the first build is under way", w, http.StatusServiceUnavailable, "UNAVAILABLE"); w.Header().Get("Retry-After") == "" {
			t.Error("it is not said when to come back")
		}
		for _, host := range []string{"gateway.test", "localhost", "", at(shop) + ".evil.example", "shopgateway.test", at(shop) + ".."} {
			wants(t, host, r.get(host, "/who", "X-Forwarded-Host", at(shop)), http.StatusTeapot, "")
		}
	})
}

// The id of a request is ours.
func TestRequestID(t *testing.T) {
	t.Parallel()
	ids := make(chan string, 1)
	back := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ids <- r.Header.Get("X-Request-Id") }))
	t.Cleanup(back.Close)
	r := newRig(t, storetest.SQLite(), nil).run()
	shop := deployed(t, "shop", forward("/who", back.URL))
	shop.Activate(t, r.db)
	r.update()
	for _, path := range []string{"/who", "/nowhere"} {
		id := r.get(at(shop), path, "X-Request-Id", "mine").Header().Get("X-Request-Id")
		if path == "/who" {
			if sent := <-ids; sent != id {
				t.Errorf("the back end sees %q, the caller %q", sent, id)
			}
			go func() { <-ids }()
		}
		second := r.get(at(shop), path, "X-Request-Id", "mine")
		if id == "" || id == "mine" || id == second.Header().Get("X-Request-Id") {
			t.Errorf("%s: %q, then %q", path, id, second.Header().Get("X-Request-Id"))
		}
	}
}

// Each request is answered by one build, none fails while builds change, and one in hand goes on
// with the build that it began with.
func TestSwap(t *testing.T) {
	t.Parallel()
	held, let := make(chan struct{}), make(chan struct{})
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(held)
		<-let
		_, _ = io.WriteString(w, "held")
	}))
	t.Cleanup(back.Close)
	r := newRig(t, storetest.SQLite(), nil).run()
	deployed(t, "shop", static("/build", "0"), forward("/slow", back.URL)).Activate(t, r.db)
	r.update()
	host := at(deployed(t, "shop"))
	slow := make(chan *httptest.ResponseRecorder, 1)
	go func() { slow <- r.get(host, "/slow") }()
	<-held
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var failed, answered atomic.Int64
	for range 2 {
		callers.Go(func() {
			last := 0
			for ctx.Err() == nil {
				w := r.get(host, "/build")
				build, err := strconv.Atoi(w.Body.String())
				if w.Code != http.StatusOK || err != nil || build < last {
					failed.Add(1)
				}
				last = build
				answered.Add(1)
			}
		})
	}
	for build := 1; build <= 5; build++ {
		text := strconv.Itoa(build)
		deployed(t, "shop", static("/build", text)).Activate(t, r.db)
		r.Nudge()
		gatewaytest.Within(t, waitTime, "build "+text, func() bool { return r.get(host, "/build").Body.String() == text })
	}
	stop()
	callers.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), answered.Load())
	}
	wants(t, "a path that is no more", r.get(host, "/slow"), http.StatusNotFound, "")
	close(let)
	wants(t, "the request in hand", <-slow, http.StatusOK, "held")
}

// Many first requests make one table.
func TestOneMaking(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), nil).run()
	shop := deployed(t, "shop", static("/", "shop"))
	shop.Activate(t, r.db)
	r.update()
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() { wants(t, "a first request", r.get(at(shop), "/"), http.StatusOK, "shop") })
	}
	callers.Wait()
	if n := r.tables.sources.Load(); n != 1 {
		t.Errorf("the source was read %d times", n)
	}
}

// Only so many tables are kept. The one that was used least recently goes.
func TestTablesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.Tables = 2 }).run()
	ask := func(project string, reads int64) {
		t.Helper()
		before := r.tables.sources.Load()
		wants(t, project, r.get(at(deployed(t, project)), "/"), http.StatusOK, project)
		if got := r.tables.sources.Load() - before; got != reads {
			t.Errorf("%s: its source was read %d times, want %d", project, got, reads)
		}
	}
	for _, project := range []string{"a", "b", "c"} {
		deployed(t, project, static("/", project)).Activate(t, r.db)
	}
	r.update()
	ask("a", 1)
	ask("b", 1)
	ask("a", 0)
	ask("c", 1) // in the place of b
	ask("a", 0)
	ask("b", 1) // in the place of c
	ask("a", 0)
	ask("c", 1)
}

// Without the database, what is loaded goes on, what is not is 503, and both take up what was
// changed when it is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), nil).run()
	hot, cold := deployed(t, "hot", static("/", "hot 1")), deployed(t, "cold", static("/", "cold"))
	hot.Activate(t, r.db)
	cold.Activate(t, r.db)
	r.update()
	wants(t, "loaded", r.get(at(hot), "/"), http.StatusOK, "hot 1")
	r.tables.away.Store(true)
	deployed(t, "hot", static("/", "hot 2")).Activate(t, r.db)
	if err := r.Update(t.Context()); err == nil {
		t.Error("nobody has noticed")
	}
	wants(t, "what is loaded", r.get(at(hot), "/"), http.StatusOK, "hot 1")
	w := r.get(at(cold), "/")
	if wants(t, "what is not", w, http.StatusServiceUnavailable, "UNAVAILABLE"); w.Header().Get("Retry-After") == "" {
		t.Error("it is not said when to come back")
	}
	if !r.Ready() {
		t.Error("not ready any more")
	}
	r.tables.away.Store(false)
	r.Nudge()
	gatewaytest.Within(t, waitTime, "both are served", func() bool {
		return r.get(at(hot), "/").Body.String() == "hot 2" && r.get(at(cold), "/").Body.String() == "cold"
	})
}

// A build that this gateway can't serve leaves what it serves, and is told of once.
func TestBuildThatIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), nil).run()
	shop := deployed(t, "shop", static("/", "good"))
	shop.Activate(t, r.db)
	r.update()
	wants(t, "good", r.get(at(shop), "/"), http.StatusOK, "good")
	bad := deployed(t, "shop", `"/":{"get":{"operationId":"o","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"handlerOfTomorrow"}}}}`)
	bad.Activate(t, r.db)
	r.update()
	gatewaytest.Within(t, waitTime, "it is logged", func() bool { return strings.Contains(r.logs.String(), "can't serve a build") })
	wants(t, "after a bad one", r.get(at(shop), "/"), http.StatusOK, "good")
	for range 10 {
		r.update()
	}
	if n := strings.Count(r.logs.String(), "can't serve a build"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
	shop.Activate(t, r.db)
	r.update()
	wants(t, "and again", r.get(at(shop), "/"), http.StatusOK, "good")
}

// A version that is lower than before is that of another state of the database: what is not in
// it is gone.
func TestRestoredDatabase(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), nil).run()
	kept, lost := deployed(t, "kept", static("/", "kept")), deployed(t, "lost", static("/", "lost"))
	kept.Activate(t, r.db)
	lost.Activate(t, r.db)
	r.update()
	wants(t, "before", r.get(at(lost), "/"), http.StatusOK, "lost")
	writing, _ := r.db.Handles()
	for _, statement := range []string{"DELETE FROM gateway_deployments WHERE project = 'lost'", "UPDATE gateway_version SET version = 2"} {
		if _, err := writing.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	r.update()
	wants(t, "kept", r.get(at(kept), "/"), http.StatusOK, "kept")
	wants(t, "lost", r.get(at(lost), "/"), http.StatusNotFound, "")
}

// A change is everywhere within a second while the bus is up, and within five without it.
func TestWhenAChangeHolds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		nudge bool
		limit time.Duration
	}{"nudged": {true, time.Second}, "polled": {false, 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, storetest.SQLite(), nil).run()
			api := r.connect()
			host := at(deployed(t, "shop"))
			for build := 1; build <= 2; build++ {
				text := "build " + strconv.Itoa(build)
				deployed(t, "shop", static("/", text)).Activate(t, r.db)
				began := time.Now()
				if row.nudge {
					api.Announce(bus.SubjectGateway, nil)
				}
				gatewaytest.Within(t, waitTime, text, func() bool { return r.get(host, "/").Body.String() == text })
				if took := time.Since(began); took > row.limit {
					t.Errorf("%s came after %s, want %s at most", text, took, row.limit)
				}
			}
		})
	}
}
