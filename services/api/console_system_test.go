package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/pgtest"
)

// With the database down, the page of the system shows what is known to whoever was let in
// shortly before; and to nobody else.
func TestConsoleSystemWithoutDatabase(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), "", "fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	r := newRig(t, cluster.URL("postgres"))
	stranger := r.browser().signIn(r.secondAccount("elsewhere"))
	stranger.get("/console/system").want(t, http.StatusNotFound, "")
	b := r.browser().signIn(adminKey)
	// A link is shown to whoever may follow it.
	for _, path := range []string{"/console/system", "/console/routes"} {
		link := `href="` + path + `"`
		if theirs, ours := strings.Contains(stranger.get("/console").body, link), strings.Contains(b.get("/console").body, link); theirs || !ours {
			t.Errorf("%s is shown to another account: %t, to the operator's: %t", path, theirs, ours)
		}
	}
	b.get("/console/system").want(t, http.StatusOK, "").has(t, "Postgres", "0001_", "EVENTS")
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	p := b.get("/console/system")
	if took := time.Since(begun); p.status != http.StatusOK || took > 20*time.Second {
		t.Fatalf("%d after %s\n%.1000s", p.status, took, p.body)
	}
	p.has(t, "not ready", "down", "EVENTS", "The database can’t say now.")
	if p := stranger.get("/console/system"); p.status != http.StatusNotFound {
		t.Errorf("another account sees it: %d", p.status)
	}
}
