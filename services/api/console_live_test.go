package api_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// A page hears of what changes in its account, by the cookie, until the session ends.
func TestConsoleLive(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/console/live", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := b.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%d %v", response.StatusCode, response.Header)
	}
	sent := b.post("/console/sample", "type", "shipment.created")
	sent.want(t, http.StatusSeeOther, sent.header.Get("Location"))
	if !strings.HasPrefix(sent.header.Get("Location"), "/console/events/evt_") {
		t.Errorf("the sample leads to %q", sent.header.Get("Location"))
	}
	lines := bufio.NewScanner(response.Body)
	heard := false
	for !heard && lines.Scan() {
		heard = strings.Contains(lines.Text(), `"kind":"event"`)
	}
	if !heard {
		t.Fatalf("the page heard nothing of the event: %v", lines.Err())
	}
	b.post("/console/sign-out").want(t, http.StatusSeeOther, signedOut)
	for lines.Scan() {
		continue // until the stream ends, or the test's time does
	}
	b.get("/console/live").want(t, http.StatusSeeOther, signedOut+"?next=%2Fconsole%2Flive")
}
