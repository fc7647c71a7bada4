package api_test

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/api/internal/kernel/live"
	"waybill.dev/shared/domain"
)

// stream is a reader of GET /v1/live.
type stream struct {
	r      *rig
	header http.Header
	status int
	close  func()
	ended  chan struct{}

	mu    sync.Mutex
	lines []string
}

// live opens a stream with a key.
func (r *rig) live(key string) *stream {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v1/live", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("X-API-Key", key)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		r.t.Fatal(err)
	}
	s := &stream{r: r, header: response.Header, status: response.StatusCode, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		defer func() { _ = response.Body.Close() }()
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			s.mu.Lock()
			s.lines = append(s.lines, scanner.Text())
			s.mu.Unlock()
		}
	}()
	s.close = func() {
		cancel()
		<-s.ended
	}
	r.t.Cleanup(s.close)
	return s
}

// news returns what the stream has told: kind and id.
func (s *stream) news() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var told []string
	for _, line := range s.lines {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var one map[string]string
			if err := json.Unmarshal([]byte(data), &one); err != nil || len(one) != 2 {
				s.r.t.Errorf("news are not a kind and an id: %s %v", data, err)
			}
			told = append(told, one["kind"]+" "+one["id"])
		}
	}
	return told
}

func (s *stream) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines) > 0
}

func (s *stream) awaits(what string) {
	s.r.t.Helper()
	eventually(s.r.t, "there is news of "+what, func() bool { return slices.Contains(s.news(), what) })
}

// Whoever watches hears what changes in the own account, and of no other.
func TestLive(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		_, key := r.holder(r.bucket("watchers"), "watcher", domain.ScopeEventsRead)
		second := r.secondAccount("second")
		ours, theirs := r.live(key), r.live(second)
		if ours.status != http.StatusOK || ours.header.Get("Content-Type") != "text/event-stream" ||
			ours.header.Get("X-Accel-Buffering") != "no" || ours.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("the stream begins with %d %v", ours.status, ours.header)
		}
		eventually(t, "both streams have begun", func() bool { return ours.begun() && theirs.begun() })
		// Processes learn that the account is watched a moment after the stream has begun.
		eventually(t, "an event is told", func() bool {
			r.do(http.MethodPost, "/v1/events", event("evt_"+domain.AttemptID())).want(http.StatusAccepted)
			r.do(http.MethodPost, "/v1/events", event("evt_"+domain.AttemptID()), as(second)).want(http.StatusAccepted)
			return len(ours.news()) > 0 && len(theirs.news()) > 0
		})
		r.publish(event("evt_watched"))
		ours.awaits("event evt_watched")
		hook := r.register(plainWebhook).text("id")
		ours.awaits("webhook " + hook)
		test := r.do(http.MethodPost, "/v1/webhooks/"+hook+"/test", "").want(http.StatusAccepted).text("deliveryId")
		ours.awaits("delivery " + test)
		failed := string(r.deliver(hook, "evt_watched", domain.StatusFailed, domain.ReasonExhausted))
		r.do(http.MethodPost, "/v1/deliveries/"+failed+"/retry", "").want(http.StatusAccepted)
		ours.awaits("delivery " + failed)
		r.do(http.MethodDelete, "/v1/webhooks/"+hook, "").want(http.StatusNoContent)
		ours.awaits("delivery ") // many of them may have ended
		// A batch with more than a message has room for is told as many.
		r.publish("[" + strings.Join(manyEvents(100), ",") + "]")
		ours.awaits("event ")

		r.do(http.MethodPost, "/v1/events", event("evt_second"), as(second)).want(http.StatusAccepted)
		theirs.awaits("event evt_second")
		for _, told := range theirs.news() {
			for _, id := range []string{"evt_watched", hook, test, failed} {
				if strings.Contains(told, id) {
					t.Errorf("another account is told %q", told)
				}
			}
		}
		if slices.Contains(ours.news(), "event evt_second") {
			t.Error("another account's event is told")
		}
	})
}

func manyEvents(n int) []string {
	events := make([]string, n)
	for i := range events {
		events[i] = event("evt_" + domain.AttemptID())
	}
	return events
}

// A stream ends with its key: when it is deleted, when it expires, and when it loses the scope.
func TestLiveEndsWithItsKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("watchers")
	consumer, key := r.holder(bucket, "deleted", domain.ScopeEventsRead)
	losing, lost := r.holder(bucket, "lost", domain.ScopeEventsRead)
	expiring, _ := r.holder(bucket, "expires", domain.ScopeEventsRead)
	short := r.do(http.MethodPost, expiring+"/keys", `{"expiresOn":"`+time.Now().Add(3*time.Second).UTC().Format(time.RFC3339Nano)+`"}`).want(http.StatusCreated).text("key")
	stays := r.live(adminKey)
	streams := []*stream{r.live(key), r.live(lost), r.live(short)}
	for _, s := range streams {
		eventually(t, "the stream has begun", s.begun)
	}
	r.do(http.MethodDelete, consumer, "").want(http.StatusNoContent)
	r.do(http.MethodPatch, losing, `{"scopes":["webhooks:read"]}`).want(http.StatusOK)
	for _, s := range streams {
		select {
		case <-s.ended:
		case <-time.After(10 * time.Second):
			t.Error("a stream goes on after its key has ended")
		}
	}
	select {
	case <-stays.ended:
		t.Error("a stream has ended whose key has not")
	default:
	}
}

// An account has no more streams than its share, a stopping server none.
func TestLiveIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	second := r.secondAccount("second")
	var open []*stream
	for range live.MaxOfAccount {
		s := r.live(adminKey)
		if s.status != http.StatusOK {
			t.Fatalf("stream %d: %d", len(open), s.status)
		}
		open = append(open, s)
	}
	r.do(http.MethodGet, "/v1/live", "").want(http.StatusTooManyRequests).field("code", "RATE_LIMITED")
	if s := r.live(second); s.status != http.StatusOK {
		t.Errorf("another account: %d", s.status)
	}
	open[0].close()
	eventually(t, "there is room again", func() bool { return r.live(adminKey).status == http.StatusOK })
	r.service.EndStreams()
	for _, s := range open {
		select {
		case <-s.ended:
		case <-time.After(10 * time.Second):
			t.Fatal("a stream goes on while the server stops")
		}
	}
	r.do(http.MethodGet, "/v1/live", "").want(http.StatusServiceUnavailable)
}
