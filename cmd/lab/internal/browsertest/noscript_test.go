package browsertest

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Without JavaScript everything can be read and done: sign in, find a failed delivery, mend the
// address, send it again, read that it arrived, sign out.
func TestWithoutJavaScript(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	right := b.sink.Endpoint("plain-right")
	hook := b.register(strings.Replace(right.URL, "plain-right", "plain-wrong", 1), "shipment.exception")
	b.publish("evt_plain", "shipment.exception", "shp_plain")
	delivery := b.status(hook.ID, "evt_plain", "failed").ID

	b.scripts(false)
	b.open("/console")
	b.at("Sign in")
	b.do(chromedp.SendKeys(chromedp.ID("key"), b.stack.Key+kb.Enter))
	b.at("Home")
	b.open("/console/deliveries?status=failed&shipmentId=shp_plain")
	b.do(chromedp.Click(chromedp.CSS(`main table a[href$="` + delivery + `"]`)))
	b.at("shipment.exception")
	b.shows("404")
	b.do(chromedp.Click(chromedp.CSS(`main dd a[href$="/` + hook.ID + `"]`)))
	b.await(`location.pathname === "/console/webhooks/` + hook.ID + `"`)
	b.do(chromedp.Click(chromedp.CSS(`.tabs a[href$="/settings"]`)))
	b.await(`location.pathname.endsWith("/settings") && document.getElementsByName("url").length === 1`)
	b.do(
		chromedp.SetValue(chromedp.CSS(`input[name=url]`), right.URL),
		chromedp.Click(chromedp.CSS(`form[action$="/settings"] button.primary`)),
	)
	b.shows("saved")
	b.open("/console/deliveries/" + delivery)
	b.do(chromedp.Click(chromedp.CSS(`form[action$="/retry"] button`)))
	b.arrives(right, "evt_plain")
	b.status(hook.ID, "evt_plain", "delivered")
	b.open("/console/deliveries/" + delivery)
	b.shows("delivered")

	b.do(chromedp.Click(chromedp.CSS(`#account summary`)), chromedp.Click(chromedp.CSS(`form[action="/console/sign-out"] button`)))
	b.at("Sign in")
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if ran, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`customElements.get("wb-time") !== undefined`)); err != nil || ran {
		t.Errorf("a script of the page has run: %v, %v", ran, err)
	}
}
