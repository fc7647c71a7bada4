package browsertest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// register registers a webhook for one type of events, which is not retried.
func (b *tab) register(url string, eventType domain.EventType) client.Webhook {
	b.Helper()
	made, err := b.api.Register(b.Context(), client.Webhook{URL: url, Events: []domain.EventType{eventType}, RetryScheduleSeconds: []float64{}})
	if err != nil {
		b.Fatalf("register a webhook: %v", err)
	}
	b.Cleanup(func() {
		if err := b.api.Delete(context.Background(), made.ID); err != nil && !client.IsStatus(err, http.StatusNotFound) {
			b.Errorf("delete a webhook: %v", err)
		}
	})
	return made
}

// publish publishes one event of a shipment.
func (b *tab) publish(id, eventType, shipment string) {
	b.Helper()
	body, _ := json.Marshal(map[string]any{"id": id, "type": eventType, "data": map[string]string{"shipmentId": shipment}})
	if _, err := b.api.Publish(b.Context(), body); err != nil {
		b.Fatalf("publish an event: %v", err)
	}
}

// soon waits until done.
func (b *tab) soon(what string, done func() (bool, error)) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	if err := stack.Await(ctx, done); err != nil {
		b.Fatalf("%s: not within %v: %v", what, patience, err)
	}
}

// status waits until the API says so of an event's delivery.
func (b *tab) status(webhook, event string, status domain.Status) client.Delivery {
	b.Helper()
	var found client.Delivery
	b.soon("the delivery of "+event+" is "+string(status), func() (ok bool, err error) {
		found, ok, err = b.api.DeliveryOf(b.Context(), webhook, event)
		return ok && found.Status == status, err
	})
	return found
}

// arrives waits until a receiver has accepted an id.
func (b *tab) arrives(e *sink.Endpoint, id string) {
	b.Helper()
	b.soon(id+" arrives", func() (bool, error) { return e.Receipt(id).Accepted > 0, nil })
}

func (b *tab) unblemished(e *sink.Endpoint) {
	b.Helper()
	if n, first := e.Faults(); n > 0 {
		b.Errorf("%d callbacks were wrong: %q", n, first)
	}
}

// A shipment's callback did not come. By the keyboard alone: find it, see why, mend the address,
// send it again and watch it arrive.
func TestMendAnAddressByKeyboard(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	right := b.sink.Endpoint("mend-right")
	hook := b.register(strings.Replace(right.URL, "mend-right", "mend-wrong", 1), "shipment.exception")
	if err := right.Trust(hook.Secret); err != nil {
		t.Fatal(err)
	}
	b.publish("evt_mend", "shipment.exception", "shp_mend_4711")
	b.status(hook.ID, "evt_mend", "failed")

	b.signIn(b.stack.Key)
	b.press("k", chromedp.ModifierCtrl)
	b.await(`document.activeElement.getAttribute("role") === "combobox"`)
	b.press("shp_mend_4711" + kb.Enter)
	b.at("Shipment shp_mend_4711")
	b.enter("shipment.exception", "failed")
	b.at("shipment.exception")
	b.shows("404") // why
	delivery := must[string](b, "location.pathname")

	b.enter(strings.TrimPrefix(hook.URL, "http://"))
	b.await(`location.pathname.startsWith("/console/webhooks/")`)
	b.enter("Settings", "Deliveries")
	b.await(`location.pathname.endsWith("/settings")`)
	b.fill("Address", right.URL)
	b.press(kb.Enter)
	b.shows("saved")

	b.open(delivery)
	b.await(`document.querySelector("wb-live button") !== null`)
	b.enter("Send again")
	b.arrives(right, "evt_mend")
	b.await(`document.querySelector("main h1").innerText.includes("delivered")`)
	b.unblemished(right)
}

// By the keyboard alone: rotate a secret. In the overlap each callback verifies with the old and
// with the new one.
func TestRotateASecretByKeyboard(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	receiver := b.sink.Endpoint("rotate")
	hook := b.register(receiver.URL, "shipment.in_transit")

	b.signIn(b.stack.Key)
	b.press("g")
	b.press("w")
	b.at("Webhooks")
	b.enter(strings.TrimPrefix(receiver.URL, "http://"))
	b.await(`location.pathname === "/console/webhooks/` + hook.ID + `"`)
	b.enter("Secret", "Deliveries")
	b.await(`location.pathname.endsWith("/secret")`)
	b.reach("The old secret signs too for")
	b.press("1")
	b.enter("Rotate the secret")
	b.at("The secret is rotated")
	secret := must[string](b, `document.querySelector("main pre code").innerText.trim()`)
	if !strings.HasPrefix(secret, "whsec_") || secret == hook.Secret {
		t.Fatalf("the page shows no new secret: %.10q…", secret)
	}
	if err := receiver.Trust(hook.Secret, secret); err != nil {
		t.Fatal(err)
	}
	b.enter("I have stored it")
	b.shows("Both secrets sign")
	if strings.Contains(b.text(), secret) {
		t.Error("the secret is shown a second time")
	}
	b.enter("Send a test")
	b.await(`[...document.querySelectorAll("main .badge")].some((badge) => badge.innerText === "delivered")`)
	if receiver.Posts() != 1 {
		t.Errorf("the receiver got %d tests, not 1", receiver.Posts())
	}
	b.unblemished(receiver)
}

// By the keyboard alone: make a key with one scope, use it, revoke it. Whoever is signed in with it
// is signed out.
func TestMakeAndRevokeAKeyByKeyboard(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.signIn(b.stack.Key)
	b.press("g")
	b.press("a")
	b.at("Access")
	b.enter("New bucket")
	b.at("New bucket")
	b.fill("Name", "by-keyboard")
	b.press(kb.Enter)
	b.at("by-keyboard")
	b.enter("New consumer")
	b.at("New consumer")
	b.fill("Name", "reader")
	b.reach("webhooks:read")
	b.press(" ")
	b.enter("Make the consumer")
	b.at("Copy the key now")
	key := must[string](b, `document.querySelector("main pre code").innerText.trim()`)
	b.enter("I have copied it")
	b.at("reader")

	// It may do what its scope says, and nothing else.
	asked := func(path string) int {
		answer, err := b.api.As(key).Ask(t.Context(), http.MethodGet, path, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status
	}
	if status := asked("/v1/webhooks"); status != http.StatusOK {
		t.Errorf("the key reads webhooks: %d", status)
	}
	if status := asked("/v1/events"); status != http.StatusForbidden {
		t.Errorf("the key reads events: %d", status)
	}
	other := newTab(t)
	other.signIn(key)
	other.open("/console/webhooks")
	other.at("Webhooks")

	b.enter("Revoke")
	b.at("Revoke")
	b.enter("Revoke the key")
	b.shows("revoked")
	if status := asked("/v1/webhooks"); status != http.StatusUnauthorized {
		t.Errorf("the revoked key reads webhooks: %d", status)
	}
	other.press("g")
	other.press("w")
	other.at("Sign in")
}

// By the keyboard alone: find what can be done to a webhook by its address, and a guide.
func TestFindByKeyboard(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	hook := b.register(b.sink.Endpoint("find-me").URL, "shipment.created")
	b.signIn(b.stack.Key)
	const first = `(document.querySelector(".palette li")?.innerText || "")`
	b.press("k", chromedp.ModifierCtrl)
	b.await(`document.activeElement.getAttribute("role") === "combobox"`)
	b.press("rotate secret find-me")
	b.await(first + `.startsWith("Rotate the secret of ")`)
	b.press(kb.Enter)
	b.await(`location.pathname === "/console/webhooks/` + hook.ID + `/secret"`)
	b.shows("Rotate")

	b.enter("Find") // in the bar
	b.await(`document.activeElement.getAttribute("role") === "combobox"`)
	b.press(hook.ID)
	b.await(first + `.includes("find-me")`)
	b.press(kb.Enter)
	b.await(`location.pathname === "/console/webhooks/` + hook.ID + `"`)

	b.press("k", chromedp.ModifierCtrl)
	b.press("order per shipment")
	b.await(first + `.includes("Order per shipment")`)
	b.press(kb.Enter)
	b.await(`location.pathname.startsWith("/docs/")`)

	b.open("/console/events")
	b.reach("Since") // an input of a time, too, shows that it has the focus
}
