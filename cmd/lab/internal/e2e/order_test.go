package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/shared/domain"
)

// fromTheAnswer is the case whose publishers publish for accounts that it makes, and which has two APIs.
const fromTheAnswer = "order holds from the answer that switches it on"

// A new account has much to be told, so each round has one of its own.
const (
	orderRounds = 8
	ofShipment  = 20
	// dispatchersTime is how long an answer waits for dispatchers, at most. On a busy machine they may need longer.
	dispatchersTime = time.Second
)

// orderedFromTheAnswer publishes events of two shipments as soon as a registration with ordering, or a
// change to it, is answered: of one shipment at once on the bus, and of the other one after the other over REST,
// through each API in turn.
func orderedFromTheAnswer(w *world) {
	late := 0
	for round := range orderRounds {
		account := fmt.Sprintf("ordered-%d", round)
		key := shownSecret.FindString(string(w.ask(w.api, http.MethodPost, "/v1/accounts", `{"name":"`+account+`"}`, http.StatusCreated).Body))
		changed := round%2 == 1
		owner := w.api.As(key)
		began := time.Now()
		endpoint, hook := w.registerAs(owner, account, func(h *client.Webhook) {
			if !changed {
				h.Ordering = string(domain.OrderingShipment)
			}
		})
		got := &inTurn{}
		endpoint.Behave(got.note)
		if changed {
			began = time.Now()
			w.ask(owner, http.MethodPatch, "/v1/webhooks/"+hook.ID, `{"ordering":"shipment"}`, http.StatusOK)
		}
		inTime := time.Since(began) < dispatchersTime
		w.publishInOrder(account, key)
		w.await(account+": all have arrived", patience, func() bool { return endpoint.Ids() == 2*ofShipment })
		if !inTime {
			late++
			continue
		}
		for shipment, events := range got.of() {
			if !slices.IsSorted(events) || len(events) != ofShipment {
				w.Errorf("%s (changed: %v): the events of %s arrive as %v", account, changed, shipment, events)
			}
		}
		if n := got.wrong; n > 0 {
			w.Errorf("%s (changed: %v): %d callbacks have another Waybill-Sequence than their event's number", account, changed, n)
		}
	}
	if late == orderRounds {
		w.Error("no answer came in time")
	}
}

// publishInOrder publishes the events of an account.
func (w *world) publishInOrder(account, key string) {
	w.Helper()
	data := func(shipment string, n int) event {
		return w.event(domain.ShipmentCreated, fmt.Sprintf(`{"shipmentId":%q,"n":%d}`, shipment, n))
	}
	for n := range ofShipment {
		e := data("bus", n+1)
		if err := w.nats.Publish("events."+account+"."+string(e.Type), e.body()); err != nil {
			w.Fatal(err)
		}
	}
	if err := w.nats.Flush(); err != nil {
		w.Fatal(err)
	}
	apis := w.stack.Clients()
	for n := range ofShipment {
		api := apis[n%len(apis)].As(key)
		w.ask(api, http.MethodPost, "/v1/events", string(data("rest", n+1).body()), http.StatusAccepted)
	}
	for _, api := range apis {
		api.Close()
	}
}

// inTurn are the numbers of events as they came first, by shipment.
type inTurn struct {
	mu    sync.Mutex
	first map[string][]int
	wrong int // have another Waybill-Sequence
}

func (a *inTurn) note(post sink.Post) sink.Answer {
	var event struct {
		Data struct {
			ShipmentID string `json:"shipmentId"`
			N          int    `json:"n"`
		} `json:"data"`
	}
	if err := json.Unmarshal(post.Body, &event); err != nil {
		return sink.Answer{Status: http.StatusBadRequest}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if post.Header.Get("Waybill-Sequence") != strconv.Itoa(event.Data.N) {
		a.wrong++
	}
	if post.OfID == 1 {
		if a.first == nil {
			a.first = make(map[string][]int)
		}
		a.first[event.Data.ShipmentID] = append(a.first[event.Data.ShipmentID], event.Data.N)
	}
	return sink.Answer{}
}

func (a *inTurn) of() map[string][]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first
}
