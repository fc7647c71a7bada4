package dispatcher_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// signedBy returns, for each v1a signature of a callback, which of the keys made it; -1: none. It
// checks by crypto/ed25519 alone what the specification says is signed.
func signedBy(t *testing.T, c call, keys []domain.SigningKey) (by []int, symmetric int) {
	t.Helper()
	text := append(fmt.Appendf(nil, "%s.%s.", c.header.Get("webhook-id"), c.header.Get("webhook-timestamp")), c.body...)
	for part := range strings.SplitSeq(c.header.Get("webhook-signature"), " ") {
		encoded, ok := strings.CutPrefix(part, "v1a,")
		if !ok {
			symmetric++
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		which := -1
		for i, key := range keys {
			if ed25519.Verify(key.Public, text, sum) {
				which = i
			}
		}
		by = append(by, which)
	}
	return by, symmetric
}

// rotateKeys rotates, and waits until the dispatcher has it.
func (b *bench) rotateKeys(overlap time.Duration) []domain.SigningKey {
	b.t.Helper()
	keys, version, err := b.store.RotateSigningKey(b.t.Context(), domain.DefaultAccount, overlap)
	if err != nil {
		b.t.Fatal(err)
	}
	b.eventually(func() error { // a dispatcher says that it has it
		if b.bus.AnnounceAnswered(b.t.Context(), bus.SubjectConfig, strconv.AppendInt(nil, version, 10), 50*time.Millisecond, time.Second) == 0 {
			return errNotYet
		}
		return nil
	})
	return keys
}

// Callbacks are signed as their webhook asks, and a rotation reaches a dispatcher that runs: in its
// overlap both keys sign, and a v1 webhook beside it has nothing of it.
func TestCallbacksAreSignedAsymmetrically(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s, v1, v1a := newSink(t, nil), newSink(t, nil), newSink(t, nil)
		both := b.webhook(s.URL, func(w *domain.Webhook) { w.Signing = domain.SigningBoth })
		plain := b.webhook(v1.URL)
		alone := b.webhook(v1a.URL, func(w *domain.Webhook) { w.Signing = domain.SigningV1A })
		b.dispatch()
		keys, err := b.store.SigningKeys(t.Context(), domain.DefaultAccount)
		if err != nil || len(keys) != 1 {
			t.Fatalf("%v, %v", keys, err)
		}
		check := func(n int, symmetric int, want ...int) {
			t.Helper()
			b.accept(1)
			for _, w := range []domain.Webhook{both, plain, alone} {
				b.deliveries(w.ID, domain.StatusDelivered, n)
			}
			for _, of := range []struct {
				sink *sink
				v1   int
				keys []int
			}{{s, symmetric, want}, {v1, 1, nil}, {v1a, 0, want}} {
				calls, _ := of.sink.seen()
				by, got := signedBy(t, calls[len(calls)-1], keys)
				if fmt.Sprint(by) != fmt.Sprint(of.keys) || got != of.v1 {
					t.Errorf("event %d: %d v1 signatures, v1a by keys %v; want %d, %v", n, got, by, of.v1, of.keys)
				}
			}
		}
		check(1, 1, 0)
		calls, _ := s.seen()
		verify(t, both.Secret, calls) // who knows the secret alone needs to know nothing of v1a
		keys = b.rotateKeys(time.Hour)
		check(2, 1, 0, 1)
		keys = b.rotateKeys(0)
		check(3, 1, 0)
	})
}

// A webhook whose account's key can't be read is held, and no other; a rotation sends what waits.
func TestAnUnreadableSigningKeyHoldsItsWebhooks(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s, well := newSink(t, nil), newSink(t, nil)
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.Signing = domain.SigningBoth })
		other := b.webhook(well.URL)
		writing, _ := b.store.Handles()
		if _, err := writing.ExecContext(t.Context(), "UPDATE signing_keys SET private_key = public_key"); err != nil {
			t.Fatal(err)
		}
		b.dispatch()
		b.accept(3)
		b.deliveries(other.ID, domain.StatusDelivered, 3)
		for _, d := range b.deliveries(w.ID, domain.StatusHeld, 3) {
			if d.Reason != domain.ReasonUnreadable {
				t.Errorf("reason %q", d.Reason)
			}
		}
		if calls, _ := s.seen(); len(calls) != 0 {
			t.Errorf("%d POSTs with half of their signatures", len(calls))
		}
		keys := b.rotateKeys(time.Hour)
		b.deliveries(w.ID, domain.StatusDelivered, 3)
		calls, _ := s.seen()
		for _, c := range calls {
			if by, symmetric := signedBy(t, c, keys); fmt.Sprint(by) != "[0]" || symmetric != 1 {
				t.Errorf("signed by %v and %d", by, symmetric)
			}
		}
	})
}
