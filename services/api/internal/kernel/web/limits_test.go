package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/shared/domain"
)

// limited is a handler with a limit, at a clock that is made up.
type limited struct {
	t       *testing.T
	handler http.Handler
}

func newLimited(t *testing.T, perSecond float64) limited {
	t.Helper()
	return limited{t, newHandler(&rig{
		store: brokenStore{err: domain.ErrNotFound}, accepter: instant{}, limit: perSecond,
		who:    caller{scopes: []domain.Scope{domain.ScopeEventsRead, domain.ScopeEventsWrite}},
		routes: webhooks.Routes(webhooks.Options{}),
	})}
}

// get asks for what is not there.
func (d limited) get() *httptest.ResponseRecorder {
	return call(d.handler, http.MethodGet, "/v1/events/evt_1")
}

// publish sends a batch of n events.
func (d limited) publish(n int) *httptest.ResponseRecorder {
	events := make([]string, n)
	for i := range events {
		events[i] = fmt.Sprintf(`{"id":"e%d","type":"shipment.created","data":{"shipmentId":"s"}}`, i)
	}
	request := httptest.NewRequest(http.MethodPost, "/v1/events", strings.NewReader("["+strings.Join(events, ",")+"]"))
	request.Header.Set("X-API-Key", "some-key")
	return serve(d.handler, request)
}

// want compares status, limit, remaining, reset and Retry-After.
func (d limited) want(a *httptest.ResponseRecorder, want string) {
	d.t.Helper()
	header := a.Header()
	got := strings.TrimSpace(fmt.Sprint(a.Code, " ", header.Get("RateLimit-Limit"), " ", header.Get("RateLimit-Remaining"), " ",
		header.Get("RateLimit-Reset"), " ", header.Get("Retry-After")))
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("(-want +got):\n%s%s", diff, a.Body)
	}
}

func TestLimitHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newLimited(t, 3)
		d.want(d.get(), "404 3 2 1")
		d.want(d.get(), "404 3 1 1")
		d.want(call(d.handler, http.MethodGet, "/v1/webhooks"), "403 3 0 1") // what is refused counts, too
		d.want(d.get(), "429 3 0 1 1")
		<-time.After(time.Second/3 + 1)
		d.want(d.get(), "404 3 0 1")
		d.want(d.get(), "429 3 0 1 1") // and what is refused for the limit does not
		<-time.After(time.Hour)
		d.want(d.get(), "404 3 2 1")
	})
}

func TestNoLimit(t *testing.T) {
	t.Parallel()
	d := newLimited(t, 0)
	for range 100 {
		d.want(d.publish(2), "202")
	}
}

func TestLimitBelowOneASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newLimited(t, 0.1)
		d.want(d.get(), "404 1 0 10")
		d.want(d.get(), "429 1 0 10 10")
		<-time.After(10 * time.Second)
		d.want(d.get(), "404 1 0 10")
		d.want(d.publish(1), "202 1 0 10")
		d.want(d.publish(1), "429 1 0 10 10")
		<-time.After(9 * time.Second)
		d.want(d.publish(1), "429 1 0 1 1")
		<-time.After(time.Second)
		d.want(d.publish(3), "429 1 1 0 1")
		d.want(d.publish(1), "202 1 0 10")
	})
}

// A batch counts by its events. One that is larger than what can be saved up is refused: lent,
// it would keep all that follows waiting.
func TestLimitOfBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newLimited(t, 10)
		d.want(d.publish(8), "202 10 2 1")
		d.want(d.publish(3), "429 10 2 1 1") // all of it
		d.want(d.publish(2), "202 10 0 1")
		<-time.After(time.Second)
		d.want(d.publish(10), "202 10 0 1")
		<-time.After(500 * time.Millisecond)
		d.want(d.publish(100), "429 10 5 1 1")
		<-time.After(500 * time.Millisecond)
		refused := d.publish(1000)
		d.want(refused, "429 10 10 0 1")
		if detail := refused.Body.String(); !strings.Contains(detail, "1000 events") || !strings.Contains(detail, "at most 10") {
			t.Errorf("the largest batch is not told: %.300s", detail)
		}
		d.want(d.publish(10), "202 10 0 1") // the refused one cost nothing
		// A batch with a fault is one request.
		<-time.After(time.Second)
		a := call(d.handler, http.MethodPost, "/v1/events")
		d.want(a, "400 10 9 1")
	})
}

// Events and everything else have an allowance each: who publishes too much, in batches or
// one by one, is still let in to manage, and the other way round.
func TestLimitsOfEventsAndManagement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newLimited(t, 5)
		for range 5 {
			d.publish(1)
		}
		d.want(d.publish(1), "429 5 0 1 1")
		d.want(d.publish(1000), "429 5 0 1 1")
		for left := 4; left >= 0; left-- {
			d.want(d.get(), fmt.Sprintf("404 5 %d 1", left))
		}
		d.want(d.get(), "429 5 0 1 1")
		<-time.After(time.Second)
		for range 20 {
			d.get()
		}
		d.want(d.publish(5), "202 5 0 1")
	})
}
