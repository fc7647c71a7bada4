package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Times are those of the reader's zone: in lists with UTC under the pointer, in titles of charts, and in fields, which are sent
// in UTC.
func TestTimesAreLocal(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil {
		t.Fatal(err)
	}
	receiver := b.sink.Endpoint("zone")
	hook := b.register(receiver.URL, "shipment.delivered")
	b.publish("evt_zone", "shipment.delivered", "shp_zone")
	delivery := b.status(hook.ID, "evt_zone", "delivered")

	b.signIn(b.stack.Key)
	b.open("/console/deliveries/" + delivery.ID)
	const apart = `[...document.querySelectorAll("wb-time:not([ago]) time")].filter((time) => Math.abs(new Date(time.textContent.replace(" ", "T") + "+05:30") - new Date(time.dateTime)) > 1000 || !time.title.includes(time.dateTime)).map((time) => time.outerHTML)`
	for _, wrong := range must[[]string](b, apart) {
		t.Errorf("not in the reader's zone, or without UTC under the pointer: %s", wrong)
	}
	// A sentence of the explanation, too, names no time in UTC.
	b.await(`!/\d{4}-\d\d-\d\dT\d\d:\d\d/.test([...document.querySelectorAll(".why, .timeline p")].map((part) => part.innerText).join())`)
	b.await(`[...document.querySelectorAll(".timeline .step-head")].some((step) => /^\+\d/.test(step.lastElementChild.innerText))`)
	b.open("/console")
	b.await(`[...document.querySelectorAll(".chart title")].length > 0 && [...document.querySelectorAll(".chart title")].every((title) => {
		const [, local, utc] = title.textContent.match(/^(.{19}) · (.{19}) UTC: /) || [];
		return new Date(local.replace(" ", "T") + "+05:30") - new Date(utc.replace(" ", "T") + "Z") === 0;
	})`)

	b.open("/console/events?since=2026-11-18T10:00:30Z&shipmentId=shp_zone")
	b.await(`document.querySelector("[name=since]").value === "2026-11-18T15:30:30"`)
	b.await(`document.querySelector(".zone").textContent === "GMT+5:30"`)
	b.reach("Shipment")
	b.press(kb.Enter)
	b.await(`new URLSearchParams(location.search).get("since") === "2026-11-18T10:00:30"`)
	b.await(`document.querySelector("[name=since]").value === "2026-11-18T15:30:30"`)
}
