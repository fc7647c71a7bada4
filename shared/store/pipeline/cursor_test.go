package store

import (
	"encoding/base64"
	"errors"
	"testing"

	"waybill.dev/shared/jsonscan/attack"
)

// FuzzCursor looks for a cursor that is taken though it can't have been given, or costs much.
func FuzzCursor(f *testing.F) {
	good := cursor{List: listEvents, Account: "acme", At: 1, ID: "evt_1"}.encode()
	f.Add(good, listEvents, "acme")
	f.Add(cursor{List: listDeliveries, Account: "acme", ID: "d"}.encode(), listDeliveries, "acme")
	for _, body := range attack.Bodies(4 << 10) {
		f.Add(base64.RawURLEncoding.EncodeToString(body.Text), listEvents, "acme")
	}
	f.Fuzz(func(t *testing.T, text, list, account string) {
		if len(text) > 1<<20 {
			return
		}
		attack.Hold(t, len(text), attack.Allowance{}, func() {
			c, err := decodeCursor(text, list, account)
			switch {
			case err != nil && !errors.Is(err, ErrCursor):
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
				if _, err := decodeCursor(text, listEvents, "acme"); !errors.Is(err, ErrCursor) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}
