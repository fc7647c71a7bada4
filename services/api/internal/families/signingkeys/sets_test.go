package signingkeys

import (
	"context"
	"fmt"
	"testing"
	"time"

	"waybill.dev/shared/domain"
)

// counter is a database that counts how often it is asked. Every name has a key there.
type counter struct {
	Store

	asked int
}

func (c *counter) SigningKeys(_ context.Context, account string) ([]domain.SigningKey, error) {
	c.asked++
	return []domain.SigningKey{{ID: account, Public: make([]byte, 32)}}, nil
}

// Whoever asks for the sets of many names costs a bounded number of reads a second and a bounded
// number of sets, and those who ask for a set that is known get it all the same.
func TestKeySetsAreBounded(t *testing.T) {
	t.Parallel()
	source, now := &counter{}, time.Now()
	s := newSets(source)
	ask := func(account string) error {
		_, err := s.of(t.Context(), account, now)
		return err
	}
	for range 10 {
		if err := ask("known"); err != nil || source.asked != 1 {
			t.Fatalf("asked %d times, %v", source.asked, err)
		}
	}
	now = now.Add(setsFresh)
	for range 2 {
		refused := 0
		for i := range 3 * maxReads {
			if ask(fmt.Sprintf("%d %d", now.UnixNano(), i)) != nil {
				refused++
			}
		}
		if refused != 2*maxReads || ask("known") != nil {
			t.Errorf("%d of %d refused", refused, 3*maxReads)
		}
		now = now.Add(time.Second)
	}
	before := source.asked
	if ask("known") != nil || source.asked != before+1 {
		t.Error("a set is not read anew")
	}
	for range 20 {
		for i := range maxReads {
			_ = ask(fmt.Sprintf("%d %d", now.UnixNano(), i))
		}
		now = now.Add(time.Second)
		if len(s.known) > maxSets {
			t.Fatalf("%d sets are kept", len(s.known))
		}
	}
	s.forget("known")
	before = source.asked
	if ask("known") != nil || source.asked != before+1 {
		t.Error("a rotation does not reach the set")
	}
}
