package auth_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
)

const bootstrapKey = "canary-bootstrap-key-0123456789-abcdefg"

// nobody is a store that has no key, and counts who asks for one.
type nobody struct{ asked int }

func (n *nobody) FindKey(context.Context, [][]byte) (domain.KeyHolder, int, error) {
	n.asked++
	return domain.KeyHolder{}, 0, domain.ErrUnavailable
}

func (*nobody) RehashKey(context.Context, string, []byte) error { return domain.ErrUnavailable }

// silent is a bus on which nothing is said.
type silent struct{}

func (silent) Announce(string, []byte)                     {}
func (silent) Listen(string, func([]byte)) (func(), error) { return func() {}, nil }
func (silent) Reconnects() (<-chan struct{}, func())       { return nil, func() {} }
func (silent) Sync(context.Context) error                  { return nil }

func TestBootstrapKey(t *testing.T) {
	t.Parallel()
	store := &nobody{}
	k, err := auth.NewKeys(auth.Options{Store: store, Bus: silent{}, Peppers: [][]byte{{1}}, Bootstrap: bootstrapKey, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := k.Authenticate(t.Context(), bootstrapKey)
	if err != nil {
		t.Fatal(err)
	}
	want := apikey.Principal{Account: "default", ID: "bootstrap", Type: "bootstrap", Scopes: []domain.Scope{domain.ScopeAdmin}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, key := range []string{"", "x", bootstrapKey[:31], bootstrapKey + " x", "wbk_0123456789abcdefghijklmnopqrstuv_782bbe54"} {
		if _, err := k.Authenticate(t.Context(), key); !errors.Is(err, apikey.ErrUnauthenticated) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if n := store.asked; n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
	// Any other text may be a key that a caller brought along.
	for _, key := range []string{bootstrapKey + "x", bootstrapKey[1:], strings.ToUpper(bootstrapKey)} {
		if _, err := k.Authenticate(t.Context(), key); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, bad := range []domain.Secret{domain.Secret(bootstrapKey[:31]), domain.Secret(strings.Repeat("x", 257)), domain.Secret(strings.Repeat(" ", 40))} {
		_, err := auth.NewKeys(auth.Options{Store: store, Bus: silent{}, Peppers: [][]byte{{1}}, Bootstrap: bad})
		if !errors.Is(err, auth.ErrBootstrapKey) {
			t.Errorf("bootstrap key of %d characters: %v", len(bad), err)
		}
	}
	none, err := auth.NewKeys(auth.Options{Store: store, Bus: silent{}, Peppers: [][]byte{{1}}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]error{"": apikey.ErrUnauthenticated, bootstrapKey: domain.ErrUnavailable} {
		if _, err := none.Authenticate(t.Context(), key); !errors.Is(err, want) {
			t.Errorf("without a bootstrap key %q: %v", key, err)
		}
	}
}
