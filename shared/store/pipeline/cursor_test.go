package pipeline

import (
	"encoding/base64"
	"errors"
	"testing"

	"waybill.dev/shared/jsonscan/attack"
	"waybill.dev/shared/store"
)

// FuzzCursor looks for a cursor that is taken though it can't have been given, or costs much.
func FuzzCursor(f *testing.F) {
	good := store.Cursor{List: listEvents, Account: "acme", At: 1, ID: "evt_1"}.Encode()
	f.Add(good, listEvents, "acme")
	f.Add(store.Cursor{List: listDeliveries, Account: "acme", ID: "d"}.Encode(), listDeliveries, "acme")
	for _, body := range attack.Bodies(4 << 10) {
		f.Add(base64.RawURLEncoding.EncodeToString(body.Text), listEvents, "acme")
	}
	f.Fuzz(func(t *testing.T, text, list, account string) {
		if len(text) > 1<<20 {
			return
		}
		attack.Hold(t, len(text), attack.Allowance{}, func() {
			c, err := store.DecodeCursor(text, list, account, isUsable)
			switch {
			case err != nil && !errors.Is(err, store.ErrCursor):
				t.Errorf("error %v", err)
			case err == nil && c != nil && (c.List != list || c.Account != account || c.ID == ""):
				t.Errorf("%+v is taken", c)
			}
		})
	})
}

// A cursor as long as a request may be costs no more than its size allows.
func TestCursorAttacks(t *testing.T) {
	for _, body := range attack.Bodies(512 << 10) {
		t.Run(body.Name, func(t *testing.T) {
			text := base64.RawURLEncoding.EncodeToString(body.Text)
			attack.Hold(t, len(text), attack.Allowance{}, func() {
				if _, err := store.DecodeCursor(text, listEvents, "acme", isUsable); !errors.Is(err, store.ErrCursor) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}
