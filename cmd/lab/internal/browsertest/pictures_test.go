package browsertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/sample"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// maxPicture is how large a picture of the documentation may be.
const maxPicture = 120 << 10

// shot is one picture.
type shot struct {
	name, path, scheme string
	width, height      int64
}

// TestPictures makes the pictures of docs/console.md and the README from sample data, in a Waybill
// of its own. With -pictures they are written there (make screenshots).
func TestPictures(t *testing.T) {
	st, err := shared.site.AllInOne(t.Context(), stack.Options{Name: "pictures"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("stop the stack: %v", err)
		}
	})
	b := bareTab(t, st.URL)
	own := *shared
	own.stack, own.api = st, st.Client()
	b.world = &own
	t.Cleanup(own.api.Close)
	delivery, webhook := b.sampleData()
	b.signIn(st.Key)
	dir := *pictures
	if dir == "" {
		dir = t.TempDir()
	}
	for _, s := range []shot{
		{"home", "/console", "light", 1200, 760},
		{"problems", "/console/problems", "light", 1200, 560},
		{"delivery", "/console/deliveries/" + delivery, "light", 1200, 860},
		{"deliveries", "/console/deliveries", "light", 1200, 760},
		{"webhook", "/console/webhooks/" + webhook, "dark", 1200, 760},
		{"shipment", "/console/shipments/shp_9F3K2M7Q", "light", 1200, 760},
	} {
		b.picture(dir, s)
	}
}

// sampleData is what a shop and its carrier might have: three receivers, one of which is down for a
// while and one of which has moved.
func (b *tab) sampleData() (delivery, webhook string) {
	b.Helper()
	all := domain.EventTypes()
	shop, mail, moved := b.sink.Endpoint("shop/orders"), b.sink.Endpoint("mail/notices"), b.sink.Endpoint("partner/v1/tracking")
	moved.Behave(func(sink.Post) sink.Answer {
		return sink.Answer{Status: http.StatusNotFound, Body: `{"error":"this address has moved to /v2/tracking"}`, Header: http.Header{"Content-Type": {"application/json"}}}
	})
	mail.Behave(func(p sink.Post) sink.Answer {
		if p.OfEndpoint%9 == 0 {
			return sink.Answer{Status: http.StatusServiceUnavailable, Body: "busy"}
		}
		return sink.Answer{}
	})
	register := func(e *sink.Endpoint, events []domain.EventType, schedule ...float64) string {
		made, err := b.api.Register(b.Context(), client.Webhook{URL: e.URL, Events: events, RetryScheduleSeconds: schedule})
		if err != nil {
			b.Fatal(err)
		}
		return made.ID
	}
	webhook = register(shop, all, 5, 300)
	register(mail, all[2:], 600, 3600)
	broken := register(moved, all[:3], 0.2)
	for i := range 48 {
		for n, t := range domain.EventTypes() {
			data, err := sample.Data(t)
			if err != nil {
				b.Fatal(err)
			}
			shipment := "shp_9F3K2M7Q"
			if i > 0 {
				shipment = fmt.Sprintf("shp_%08X", 0x5EED0000+i*7919)
			}
			var fields map[string]any
			if err := json.Unmarshal(data, &fields); err != nil {
				b.Fatal(err)
			}
			fields["shipmentId"] = shipment
			if data, err = json.Marshal(fields); err != nil {
				b.Fatal(err)
			}
			id := fmt.Sprintf("evt_%04d_%d", i, n+1)
			if _, err := b.api.Publish(b.Context(), sample.Event(id, t, time.Now(), data)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.status(webhook, "evt_0047_4", "delivered")
	b.status(broken, "evt_0047_1", "failed")
	return b.status(broken, "evt_0000_1", "failed").ID, webhook
}

func (b *tab) picture(dir string, s shot) {
	b.Helper()
	b.colours(s.scheme)
	b.do(chromedp.EmulateViewport(s.width, s.height))
	b.open(s.path)
	b.await(`document.readyState === "complete" && document.querySelector("wb-live button") !== null`)
	picture, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		answer, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng})
		return answer.Data, err
	})
	if err != nil {
		b.Fatalf("take a picture of %s: %v", s.path, err)
	}
	picture = b.smaller(picture)
	if len(picture) > maxPicture {
		b.Errorf("the picture %s has %d bytes, more than %d", s.name, len(picture), maxPicture)
	}
	if err := os.WriteFile(filepath.Join(dir, "console-"+s.name+".png"), picture, 0o644); err != nil {
		b.Fatal(err)
	}
}

// smaller gives a picture a palette of its 256 most frequent colours, which is all that pages without
// photographs need.
func (b *tab) smaller(picture []byte) []byte {
	b.Helper()
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		b.Fatal(err)
	}
	frequency := make(map[color.RGBA]int)
	bounds := decoded.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			frequency[color.RGBAModel.Convert(decoded.At(x, y)).(color.RGBA)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(frequency), func(a, b color.RGBA) int {
		return cmp.Or(frequency[b]-frequency[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	palette := make(color.Palette, min(len(colours), 256))
	for i := range palette {
		palette[i] = colours[i]
	}
	indexed := image.NewPaletted(bounds, palette)
	draw.Draw(indexed, bounds, decoded, bounds.Min, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, indexed); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}
