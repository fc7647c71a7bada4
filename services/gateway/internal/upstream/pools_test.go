package upstream_test

import (
	"io"
	"net/http"
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
