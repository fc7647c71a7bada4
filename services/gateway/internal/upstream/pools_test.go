package upstream_test

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"waybill.dev/services/gateway/internal/upstream"
)

// Requests to one back end share its connections, whichever route they are of; what no
// route uses any more is closed, and the rest stays open.
func TestPools(t *testing.T) {
	t.Parallel()
	kept, toKept := receiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "kept") })
	gone, toGone := receiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "gone") })
	pools := upstream.NewPools(production())
	t.Cleanup(pools.Close)
	backEnd := func(base string) upstream.BackEnd {
		u, err := upstream.Parse(production(), base)
		if err != nil {
			t.Fatal(err)
		}
		return upstream.To(u)
	}
	ask := func(to upstream.BackEnd, url string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := pools.RoundTrip(to, r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	for range 3 {
		ask(backEnd(kept), kept)
		ask(backEnd(kept+"/other/base"), kept)
		ask(backEnd(gone), gone)
	}
	if a, b := toKept.Load(), toGone.Load(); a != 1 || b != 1 {
		t.Errorf("%d and %d connections, want one to each back end", a, b)
	}
	pools.Keep([]upstream.BackEnd{backEnd(kept + "/third")})
	ask(backEnd(kept), kept)
	ask(backEnd(gone), gone)
	if a, b := toKept.Load(), toGone.Load(); a != 1 || b != 2 {
		t.Errorf("%d and %d connections, want the first kept and the second anew", a, b)
	}
}

// Connections to a back end that many use at a time are kept, and not closed and opened again
// with each wave.
func TestConnectionsOfMany(t *testing.T) {
	t.Parallel()
	const many = 200
	var arrived atomic.Int64
	waves := make([]chan struct{}, 3)
	for i := range waves {
		waves[i] = make(chan struct{})
	}
	base, connections := receiver(t, func(http.ResponseWriter, *http.Request) {
		n := arrived.Add(1) - 1
		if (n+1)%many == 0 {
			close(waves[n/many])
		}
		<-waves[n/many] // all of a wave are there at a time
	})
	u, err := upstream.Parse(production(), base)
	if err != nil {
		t.Fatal(err)
	}
	pools := upstream.NewPools(production())
	t.Cleanup(pools.Close)
	for range waves {
		var wave sync.WaitGroup
		for range many {
			wave.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := pools.RoundTrip(upstream.To(u), r)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			})
		}
		wave.Wait()
	}
	// A connection may still be on its way back when the next wave begins.
	if n := connections.Load(); n > many+many/4 {
		t.Errorf("%d connections for %d at a time", n, many)
	}
}
