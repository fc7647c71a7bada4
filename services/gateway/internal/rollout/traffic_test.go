package rollout_test

import (
	"context"
	"fmt"
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
