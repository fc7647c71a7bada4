package index

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// AccountStore reads the accounts.
type AccountStore interface {
	ListAccounts(ctx context.Context, page store.Page) ([]domain.Account, int, error)
	GetAccount(ctx context.Context, name string) (domain.Account, error)
}

// Accounts knows which accounts exist. The database is the truth: Ask asks it about an account that
// is not known here, because the account may have been made a moment ago. A known account stays
// known, because accounts are never deleted.
type Accounts struct {
	store AccountStore
	mu    sync.RWMutex
	known map[string]struct{}
}

// NewAccounts returns an Accounts that knows no account yet.
func NewAccounts(source AccountStore) *Accounts {
	return &Accounts{store: source, known: make(map[string]struct{})}
}

// accountsPage is how many accounts are read at a time.
const accountsPage = 1000

// Load reads all accounts, so that they are known when the database is away.
func (a *Accounts) Load(ctx context.Context) error {
	for offset := 0; ; offset += accountsPage {
		list, total, err := a.store.ListAccounts(ctx, store.Page{Limit: accountsPage, Offset: offset})
		if err != nil {
			return fmt.Errorf("read accounts: %w", err)
		}
		a.mu.Lock()
		for _, account := range list {
			a.known[account.Name] = struct{}{}
		}
		a.mu.Unlock()
		if offset+len(list) >= total || len(list) == 0 {
			return nil
		}
	}
}

// Known reports whether an account is known to exist. It does not ask the database.
func (a *Accounts) Known(name string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	_, ok := a.known[name]
	return ok
}

// Ask asks the database whether an account exists.
func (a *Accounts) Ask(ctx context.Context, name string) (bool, error) {
	if a.Known(name) {
		return true, nil
	}
	_, err := a.store.GetAccount(ctx, name)
	if errors.Is(err, domain.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up an account: %w", err)
	}
	a.mu.Lock()
	a.known[name] = struct{}{}
	a.mu.Unlock()
	return true, nil
}
