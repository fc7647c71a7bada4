package rollout_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/gateway/internal/observe"
	"waybill.dev/services/gateway/internal/rollout"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

// later are tables that are there once the rig is.
type later struct{ *traffic.Traffic }

// Whatever is answered in the name of a deployment counts as its traffic, with a table or
// without one. A name that nobody has counts for nobody. The id that a caller gives is kept
// beside ours.
func TestTraffic(t *testing.T) {
	t.Parallel()
	held, let := make(chan struct{}), make(chan struct{})
	back := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		held <- struct{}{}
		<-let
	}))
	t.Cleanup(back.Close)
	kept := &later{}
	recorder := observe.New(observe.Options{Store: kept, Rate: 100, Logger: slog.New(slog.DiscardHandler)})
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.InFlight, o.Traffic = 1, recorder }).run()
	kept.Traffic = traffic.New(r.db)
	hot, cold := deployed(t, "hot", static("/", "hot"), forward("/back", back.URL)), deployed(t, "cold", static("/", "cold"))
	builds, failed := deployed(t, "builds"), deployed(t, "failed")
	hot.Activate(t, r.db)
	cold.Activate(t, r.db)
	builds.Set(t, r.db, domain.DeploymentBuilding)
	failed.Set(t, r.db, domain.DeploymentErrored)
	r.update()

	first := r.get(at(hot), "/", "X-Request-Id", "theirs")
	wants(t, "served", first, http.StatusOK, "hot")
	wants(t, "no route", r.get(at(hot), "/missing"), http.StatusNotFound, "")
	busy := make(chan *httptest.ResponseRecorder, 1)
	go func() { busy <- r.get(at(hot), "/back") }()
	<-held
	wants(t, "one more than may be in flight", r.get(at(hot), "/"), http.StatusServiceUnavailable, "")
	close(let)
	wants(t, "in flight", <-busy, http.StatusOK, "")
	r.tables.away.Store(true)
	wants(t, "no table", r.get(at(cold), "/", "X-Request-Id", "theirs"), http.StatusServiceUnavailable, "")
	wants(t, "the first build is under way", r.get(at(builds), "/"), http.StatusServiceUnavailable, "")
	wants(t, "no build", r.get(at(failed), "/"), http.StatusNotFound, "")
	wants(t, "nobody's name", r.get("nobody.gateway.test", "/"), http.StatusNotFound, "")

	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a recorder writes what it has before it ends
	if err := recorder.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{hot.Name(): "200:2 404:1 503:1", cold.Name(): "503:1", builds.Name(): "503:1", failed.Name(): "404:1", "nobody": ""} {
		counts, err := kept.CallCounts(t.Context(), name, traffic.Day1, time.Now().Add(-time.Hour), nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, count := range counts {
			got = append(got, fmt.Sprintf("%d:%d", count.Status, count.Calls.Calls))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if one, err := kept.GetRequest(t.Context(), hot.Name(), first.Header().Get("X-Request-Id")); err != nil || one.ClientRequestID != "theirs" || one.RequestID == "theirs" || one.BuildID == "" {
		t.Errorf("%+v, %v", one, err)
	}
	list, err := kept.RecentCalls(t.Context(), cold.Name(), time.Now().Add(-time.Hour), nil, 10)
	if err != nil || len(list) != 1 || list[0].RoutePath != "" || list[0].BuildID != "" || list[0].ClientRequestID != "theirs" || list[0].Path != "/" {
		t.Errorf("%+v, %v", list, err)
	}
}

// A back end that is dead, or breaks its answers off, is told in the log of the deployment. In that
// of the process it would be a line for each request, of whoever deploys such a thing.
func TestDeadBackEnds(t *testing.T) {
	t.Parallel()
	breaking := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(make([]byte, 50_000))
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(breaking.Close)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	kept := &later{}
	recorder := observe.New(observe.Options{Store: kept, Rate: 100, Logger: slog.New(slog.DiscardHandler)})
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.Traffic = recorder }).run()
	kept.Traffic = traffic.New(r.db)
	shop := deployed(t, "shop", forward("/dead", dead.URL), forward("/breaking", breaking.URL))
	shop.Activate(t, r.db)
	r.update()
	const times = 20
	ids := map[string]string{}
	for range times {
		w := r.get(at(shop), "/dead")
		wants(t, "dead", w, http.StatusBadGateway, "BAD_GATEWAY")
		ids["refused"] = w.Header().Get("X-Request-Id")
	}
	served := httptest.NewServer(r.handler)
	t.Cleanup(served.Close)
	for range times {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, served.URL+"/breaking", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = at(shop)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err == nil {
			t.Error("the answer did not break off")
		}
		_ = answer.Body.Close()
		ids[`"closed"`] = answer.Header.Get("X-Request-Id")
	}
	if logs := r.logs.String(); strings.Contains(logs, `"WARN"`) || strings.Contains(logs, `"ERROR"`) {
		t.Errorf("the process logs\n%s", logs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := recorder.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for what, id := range ids {
		one, err := kept.GetRequest(t.Context(), shop.Name(), id)
		if err != nil || one.Severity != domain.SeverityError || !strings.Contains(entryTexts(one), what) {
			t.Errorf("%s: %v, %+v %s", what, err, one, entryTexts(one))
		}
	}
}

// entryTexts is what the entries of a request say, with their attributes.
func entryTexts(of traffic.Request) string {
	var texts []string
	for _, e := range of.Entries {
		texts = append(texts, e.Source+": "+e.Message+" "+string(e.Attributes))
	}
	return strings.Join(texts, "; ")
}
