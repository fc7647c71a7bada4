package api_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"
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
	heard, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		told := false
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if !told && strings.Contains(lines.Text(), `"kind":"event"`) {
				told = true
				close(heard)
			}
		}
	}()
	limit, again := time.After(30*time.Second), time.NewTicker(time.Second)
	defer again.Stop()
	for waiting := true; waiting; {
		// Of an event that comes before it is known that somebody watches, nothing is told.
		sent := b.post("/console/sample", "type", "shipment.created")
		sent.want(t, http.StatusSeeOther, sent.header.Get("Location"))
		if !strings.HasPrefix(sent.header.Get("Location"), "/console/events/evt_") {
			t.Errorf("the sample leads to %q", sent.header.Get("Location"))
		}
		select {
		case <-heard:
			waiting = false
		case <-again.C:
		case <-limit:
			t.Fatal("the page heard nothing of the events")
		}
	}
	b.post("/console/sign-out").want(t, http.StatusSeeOther, signedOut)
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the stream goes on after the sign-out")
	}
	b.get("/console/live").want(t, http.StatusSeeOther, signedOut+"?next=%2Fconsole%2Flive")
}
