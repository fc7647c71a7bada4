package browsertest

import (
	"strconv"
	"testing"
)

// A page that is open follows what happens, and stands still when it is paused.
func TestPagesAreLive(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	receiver := b.sink.Endpoint("live")
	hook := b.register(receiver.URL, "shipment.created")
	b.signIn(b.stack.Key)
	b.open("/console/deliveries?webhookId=" + hook.ID)
	b.await(`document.querySelector("wb-live")?.getAttribute("state") === "live"`)
	must[bool](b, `(window.notLoadedAnew = true)`)
	b.publish("evt_live_1", "shipment.created", "shp_live_1")
	b.await(rowsAre("delivered", 1))

	b.press("l")
	b.await(`document.querySelector("wb-live").getAttribute("state") === "paused"`)
	b.publish("evt_live_2", "shipment.created", "shp_live_2")
	b.status(hook.ID, "evt_live_2", "delivered")
	if !must[bool](b, rowsAre("delivered", 1)) {
		t.Error("the page is paused, and has changed")
	}
	b.press("l")
	b.await(rowsAre("delivered", 2))
	if !must[bool](b, `window.notLoadedAnew === true`) {
		t.Error("the page was loaded anew")
	}
}

// rowsAre is true when a table has so many rows with a status.
func rowsAre(status string, n int) string {
	return `[...document.querySelectorAll("main table.list tbody tr")].filter((row) => row.innerText.includes(` + quoted(status) + `)).length === ` + strconv.Itoa(n)
}
