package allinone

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/settings"
)

func openDoors(t *testing.T, path string) (d *doors, end func()) {
	t.Helper()
	dir, err := datadir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	d = newDoors(dir, settings.Settings{GatewayDomain: "gateway.localhost", MaxConnections: 100}, slog.New(slog.DiscardHandler))
	d.reopen(t.Context())
	return d, func() {
		for _, o := range d.open {
			o.close()
		}
		_ = dir.Close()
	}
}

// A deployment keeps its port over a restart, and no request brings along the console's cookies, which
// browsers send to all ports of a host.
func TestDoors(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d, end := openDoors(t, path)
	first, other := d.url("shop"), d.url("desk")
	if first == "" || first == other || d.url("shop") != first {
		t.Fatalf("the addresses are %q and %q", first, other)
	}
	end()
	d, end = openDoors(t, path)
	defer end()
	if again := d.url("shop"); again != first {
		t.Errorf("after a restart it is at %s, and was at %s", again, first)
	}
	var group errgroup.Group
	group.Go(func() error {
		return d.run(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %q", r.Host, r.Header.Values("Cookie"))
		}))
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, first, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Cookie", "waybill=session; a=1; __Host-waybill-oidc=state; Waybill-theme=dark; b=2")
	await(t, "the deployments are served", func() bool { return d.serves() })
	d.mu.Lock() // as if a port was being opened
	answer, err := http.DefaultClient.Do(request)
	d.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if want := `shop.gateway.localhost ["a=1; b=2"]`; err != nil || string(text) != want {
		t.Errorf("it gets %s, want %s (%v)", text, want, err)
	}
}

func (d *doors) serves() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.serve != nil
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatalf("not within ten seconds: %s", what)
		}
		runtime.Gosched()
	}
}

// A deployment whose port is lost gets another one.
func TestLostDoor(t *testing.T) {
	t.Parallel()
	d, end := openDoors(t, t.TempDir())
	defer end()
	lost, kept := d.url("shop"), d.url("desk")
	var group errgroup.Group
	group.Go(func() error { return d.run(t.Context(), http.NotFoundHandler()) })
	if err := d.open[0].server.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "it has another address", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url("shop"), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return d.url("shop") != lost
	})
	if d.url("desk") != kept || len(d.list()) != 2 {
		t.Errorf("the other one is at %s, and was at %s; %d are open", d.url("desk"), kept, len(d.list()))
	}
}

// One deployment more takes the port of the one that was asked for the longest ago.
func TestDoorsAreBounded(t *testing.T) {
	t.Parallel()
	d, end := openDoors(t, t.TempDir())
	defer end()
	first := d.url("0")
	for n := range mostDoors {
		d.url(strconv.Itoa(n + 1))
		if n == 0 {
			d.url("0")
		}
	}
	if len(d.open) != mostDoors || d.url("0") != first || d.open[0].Deployment != "2" {
		t.Errorf("%d are open, the first of %s", len(d.open), d.open[0].Deployment)
	}
}
