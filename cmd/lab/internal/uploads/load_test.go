package uploads_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waybill.dev/cmd/internal/apipart"
	"waybill.dev/cmd/lab/internal/uploads"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/egress"
)

// served is a gateway that answers with what it is told: a status, a body, and a header.
type served struct {
	status       int
	body, header string
}

// process serves the deployment.
func process(t *testing.T, now *atomic.Pointer[served]) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.gateway.localhost" || r.URL.Path != uploads.Path {
			t.Errorf("asked for %s of %s", r.URL, r.Host)
		}
		s := now.Load()
		w.Header().Set("X-Release", s.header)
		w.WriteHeader(s.status)
		_, _ = fmt.Fprint(w, s.body)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// briefly lets the load run for a moment.
func briefly(t *testing.T, load *uploads.Load) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	load.Run(ctx)
}

// A load that finds nothing wrong would prove nothing.
func TestLoadSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	rows := []struct {
		about                string
		first, then          served
		failed, mixed, stale bool
	}{
		{"all is well", served{200, "1", "1"}, served{200, "2", "2"}, false, false, false},
		{"an error", served{200, "1", "1"}, served{503, "2", "2"}, true, false, false},
		{"two releases in one answer", served{200, "1", "1"}, served{200, "2", "1"}, false, true, false},
		{"a release that was not uploaded", served{200, "1", "1"}, served{200, "3", "3"}, false, true, false},
		{"the old one stays", served{200, "1", "1"}, served{200, "1", "1"}, false, false, true},
		{"the old one comes back", served{200, "2", "2"}, served{200, "1", "1"}, false, false, true},
	}
	for _, row := range rows {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			var now [2]atomic.Pointer[served]
			for i := range now {
				now[i].Store(&row.first)
			}
			other := served{200, "2", "2"} // the other gateway does it right
			load := uploads.NewLoad("shop.gateway.localhost", []string{process(t, &now[0]), process(t, &now[1])}, 100)
			load.Uploading(2)
			briefly(t, load)
			load.Released(2, 0)
			now[0].Store(&row.then)
			now[1].Store(&other)
			briefly(t, load)
			r := load.Mark()
			if r.Requests == 0 || r.Failed > 0 != row.failed || r.Mixed > 0 != row.mixed || r.Stale > 0 != row.stale {
				t.Errorf("%+v", r)
			}
			if right := r.Wrong() == ""; right == (row.failed || row.mixed || row.stale) {
				t.Errorf("says %q", r.Wrong())
			}
			if r.Slowest < 0 || r.P99 < r.P50 || r.P50 == 0 {
				t.Errorf("figures %+v", r)
			}
		})
	}
}

func TestFailuresOfAGatewayThatIsAwayDoNotCount(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[served]
	now.Store(&served{200, "1", "1"})
	address := process(t, &now)
	load := uploads.NewLoad("shop.gateway.localhost", []string{address}, 100)
	load.Uploading(1)
	briefly(t, load)
	load.Away(address)
	now.Store(&served{503, "", ""})
	briefly(t, load)
	now.Store(&served{200, "1", "1"})
	load.Back(address)
	briefly(t, load)
	if r := load.Mark(); r.Wrong() != "" || r.Requests == 0 {
		t.Errorf("%s: %+v", r.Wrong(), r)
	}
}

func TestReleasesAreGoodRouteFiles(t *testing.T) {
	t.Parallel()
	archive, err := uploads.Release(7, 3)
	if err != nil {
		t.Fatal(err)
	}
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	routes, faults, err := apipart.CheckRoutes(gateway.RoutesOptions{Dir: dir, Egress: &egress.Policy{}})
	if err != nil || len(faults) > 0 || len(routes) != 4 {
		t.Errorf("%d routes, %v, %v", len(routes), faults, err)
	}
}
