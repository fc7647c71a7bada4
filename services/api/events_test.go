package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// published is the answer to a publisher.
type published struct {
	Events []struct {
		ID        string `json:"id"`
		Duplicate bool   `json:"duplicate"`
	} `json:"events"`
}

func (p published) String() string {
	var texts []string
	for _, e := range p.Events {
		texts = append(texts, fmt.Sprintf("%s %t", e.ID, e.Duplicate))
	}
	return strings.Join(texts, ", ")
}

func (r *rig) publish(body string, tweaks ...tweak) published {
	r.t.Helper()
	var p published
	r.insist(http.MethodPost, "/v1/events", body, tweaks...).want(http.StatusAccepted).into(&p)
	return p
}

// What REST accepts reaches the bus as it was published, byte for byte, once.
func TestPublish(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		// What is accepted before the stream is there, is for the relay, which knows no traces.
		r.publish(event("before"))
		eventually(t, "events are published at once", func() bool { return len(r.messages(bus.StreamEvents)) == 1 })
		trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		if got := r.publish(event("a"), header("traceparent", trace)).String(); got != "a false" {
			t.Errorf("first: %s", got)
		}
		if got := r.publish(event("a")).String(); got != "a true" {
			t.Errorf("again: %s", got)
		}
		data := `{ "shipmentId" : "s\u00e4", "n":1e400,"m":9007199254740993, "f":0.1000,"é":["\/"] }`
		if got := r.publish("[" + event("b") + "," + event("b") + "," + event("a") + `,{"type":"shipment.exception","data":` + data + "}]").String(); !regexp.MustCompile(
			`^b false, b true, a true, evt_[0-9a-f]{32} false$`).MatchString(got) {
			t.Errorf("batch: %s", got)
		}

		eventually(t, "three more events are on the bus", func() bool { return len(r.messages(bus.StreamEvents)) == 4 })
		messages := r.messages(bus.StreamEvents)[1:]
		if got := messages[0].Subject; got != "events.default.shipment.created" {
			t.Errorf("subject %s", got)
		}
		if got := messages[0].Header.Get("Nats-Msg-Id"); got != "default.a" {
			t.Errorf("message id %s", got)
		}
		if got := messages[0].Header.Get("traceparent"); got != trace {
			t.Errorf("traceparent %q", got)
		}
		want := `{"id":"a","type":"shipment.created","timestamp":"2026-01-02T03:04:05+01:00","data":{"shipmentId":"s-a","n":0.1000}}`
		if diff := cmp.Diff(want, string(messages[0].Data)); diff != "" {
			t.Errorf("first message (-want +got):\n%s", diff)
		}
		parts := regexp.MustCompile(`^\{"id":"(evt_[0-9a-f]{32})","type":"shipment.exception","timestamp":"([^"]*Z)","data":(.*)\}$`).
			FindStringSubmatch(string(messages[2].Data))
		if len(parts) != 4 || parts[3] != data {
			t.Fatalf("last message: %s", messages[2].Data)
		}
		if at, err := time.Parse(time.RFC3339, parts[2]); err != nil || time.Since(at) > time.Minute {
			t.Errorf("timestamp made: %s", parts[2])
		}
		accepted, ok := r.bus.ParseAccepted(messages[2].Subject, messages[2].Header, messages[2].Data)
		if !ok || accepted.Version < 1 || accepted.Event.ID != parts[1] {
			t.Errorf("the message is not known as accepted: %+v", accepted)
		}
		kept, err := r.store.GetEvent(t.Context(), domain.DefaultAccount, parts[1])
		if err != nil || !kept.ReceivedAt.Equal(accepted.Event.ReceivedAt) {
			t.Errorf("received %s in the database, %s on the bus (%v)", kept.ReceivedAt, accepted.Event.ReceivedAt, err)
		}
	})
}

// The documented samples come out as they went in.
func TestSamplesAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	for _, name := range []string{"created", "in_transit", "delivered", "exception"} {
		body, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimSpace(string(body))
		id := r.publish(text).Events[0].ID
		shown := string(r.do(http.MethodGet, "/v1/events/"+id, "").want(200).body)
		if !strings.HasPrefix(shown, strings.TrimSuffix(text, "}")+`,"receivedAt":"`) {
			t.Errorf("%s was published as\n%s\nand is shown as\n%s", name, text, shown)
		}
	}
}

func TestListEvents(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		for i := range 5 {
			r.publish(event(fmt.Sprint("e", i)))
		}
		r.publish(`{"id":"other","type":"shipment.exception","data":{"shipmentId":"s"}}`)
		list := func(query string) (ids []string, next string) {
			t.Helper()
			var page struct {
				Data []struct {
					ID         string         `json:"id"`
					Data       map[string]any `json:"data"`
					ReceivedAt time.Time      `json:"receivedAt"`
				} `json:"data"`
				NextCursor *string `json:"nextCursor"`
			}
			a := r.do(http.MethodGet, "/v1/events"+query, "").want(200)
			if !strings.Contains(string(a.body), `"nextCursor"`) {
				t.Errorf("nextCursor is missing in %s", a.body)
			}
			a.into(&page)
			for _, e := range page.Data {
				if e.ReceivedAt.IsZero() || e.Data["shipmentId"] == "" {
					t.Errorf("event is incomplete: %+v", e)
				}
				ids = append(ids, e.ID)
			}
			if page.NextCursor != nil {
				next = *page.NextCursor
			}
			return ids, next
		}
		first, cursor := list("?type=shipment.created&limit=3")
		second, end := list("?type=shipment.created&limit=3&cursor=" + url.QueryEscape(cursor))
		if len(first) != 3 || len(second) != 2 || end != "" {
			t.Errorf("pages %v, %v, then %q", first, second, end)
		}
		if diff := cmp.Diff([]string{"e0", "e1", "e2", "e3", "e4"}, sorted(append(first, second...))); diff != "" {
			t.Errorf("both pages (-want +got):\n%s", diff)
		}
		if all, _ := list(""); len(all) != 6 || all[0] != "other" && all[1] != "other" {
			t.Errorf("all, the newest first: %v", all)
		}
		if none, _ := list("?until=2020-01-01T00:00:00Z"); len(none) != 0 {
			t.Errorf("until 2020: %v", none)
		}
		if all, _ := list("?since=2020-01-01T00:00:00%2B02:00"); len(all) != 6 {
			t.Errorf("since 2020: %v", all)
		}
		r.do(http.MethodGet, "/v1/deliveries?cursor="+url.QueryEscape(cursor), "").want(400)
	})
}

// A key makes a publication take effect once, however often and however parallel it comes.
func TestPublishOnce(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		body := `[{"type":"shipment.created","data":{"shipmentId":"s1"}},{"type":"shipment.created","data":{"shipmentId":"s2"}}]`
		var mu sync.Mutex
		var waiting sync.WaitGroup
		answers := map[string]int{}
		for range 20 {
			waiting.Go(func() {
				for i := range 6 {
					key := fmt.Sprint("key", i%2)
					p := r.publish(body, header("Idempotency-Key", key))
					mu.Lock()
					answers[key+" "+p.String()]++
					mu.Unlock()
				}
			})
		}
		waiting.Wait()
		if len(answers) != 2 {
			t.Errorf("%d answers to 2 keys: %v", len(answers), answers)
		}
		for text, n := range answers {
			if n != 60 || strings.Contains(text, "true") {
				t.Errorf("%d times %s", n, text)
			}
		}
		r.do(http.MethodPost, "/v1/events", event("x"), header("Idempotency-Key", "key1")).want(409)
		// What was refused does not use a key up.
		r.do(http.MethodPost, "/v1/events", `{"type":"x"}`, header("Idempotency-Key", "key2")).want(400)
		r.publish(event("x"), header("Idempotency-Key", "key2"))
		eventually(t, "all events are on the bus", func() bool { return len(r.messages(bus.StreamEvents)) == 5 })
	})
}

// Many publishers at once: every event is accepted once, whoever else sends it.
func TestPublishTogether(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const publishers, ids = 16, 40
		var mu sync.Mutex
		var waiting sync.WaitGroup
		fresh := map[string]int{}
		for range publishers {
			waiting.Go(func() {
				for i := range ids {
					for _, e := range r.publish(event(fmt.Sprint("e", i))).Events {
						if !e.Duplicate {
							mu.Lock()
							fresh[e.ID]++
							mu.Unlock()
						}
					}
				}
			})
		}
		waiting.Wait()
		// What was answered with 503 may be stored all the same; then it is a duplicate the next time.
		if refused := int(r.refused.Load()); len(fresh) < ids-refused {
			t.Errorf("%d ids were accepted after %d refusals, want %d", len(fresh), refused, ids)
		}
		for id, n := range fresh {
			if n != 1 {
				t.Errorf("%s was accepted %d times", id, n)
			}
		}
		eventually(t, "each event is on the bus", func() bool { return len(r.messages(bus.StreamEvents)) >= ids })
		if n := len(r.messages(bus.StreamEvents)); n != ids {
			t.Errorf("%d messages, want %d", n, ids)
		}
	})
}

// An id that someone has used up on the bus does not keep an accepted event away from it.
func TestMessageIDInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	done := make(chan error, 1)
	squatter := bus.AcceptedEvent{Event: domain.Event{Account: "default", ID: "a", Type: domain.ShipmentException, Payload: []byte("{}")}}
	r.bus.PublishEvent(squatter, 0, func(_ bool, err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.publish(event("a"))
	eventually(t, "the accepted event is on the bus", func() bool {
		messages := r.messages(bus.StreamEvents)
		return len(messages) == 2 && strings.Contains(string(messages[1].Data), "s-a")
	})
}
