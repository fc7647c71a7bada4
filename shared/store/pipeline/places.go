package pipeline

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// places knows which accounts have, or had, a webhook with ordering. Only their events get places in
// their commits; other commits do nothing for it. The accounts are read when a commit has seen a newer
// configuration. Events that a process commits before it knows that their account has ordering get their
// places after the commit.
type places struct {
	accountsKnown atomic.Pointer[orderingAccounts]
	mu            sync.Mutex // orders changes of known
}

// orderingAccounts are the accounts with ordering at a configuration version, or more of them. They are never changed.
type orderingAccounts struct {
	version  int64
	accounts map[string]struct{}
}

// in reports whether any of the submissions is of an account with ordering.
func (o *orderingAccounts) in(subs []Submission) bool {
	if len(o.accounts) == 0 {
		return false
	}
	for i := range subs {
		if _, ok := o.accounts[subs[i].Account]; ok {
			return true
		}
	}
	return false
}

// readOrderingAccounts reads the accounts unless those of the version are known; 0: those of any version.
// Accounts are never removed, so they have not changed while their number is the same.
func (p *Pipeline) readOrderingAccounts(ctx context.Context, version int64) error {
	if known := p.places.accountsKnown.Load(); known != nil && known.version >= version {
		return nil
	}
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	known := p.places.accountsKnown.Load()
	if known != nil && known.version >= version {
		return nil
	}
	var now struct{ Version, Accounts int64 }
	err := p.db.Reading(ctx).Raw("SELECT version, (SELECT count(*) FROM ordering_accounts) AS accounts FROM config_version").Scan(&now).Error
	if err != nil {
		return store.Wrap("count accounts with ordering", err)
	}
	if known != nil && int(now.Accounts) == len(known.accounts) {
		p.places.accountsKnown.Store(&orderingAccounts{now.Version, known.accounts})
		return nil
	}
	var names []string
	if err := p.db.Reading(ctx).Model(&orderingAccountRow{}).Pluck("account", &names).Error; err != nil {
		return store.Wrap("read accounts with ordering", err)
	}
	accounts := make(map[string]struct{}, len(names))
	for _, name := range names {
		accounts[name] = struct{}{}
	}
	p.places.accountsKnown.Store(&orderingAccounts{now.Version, accounts})
	return nil
}

// startPlaces makes an account one with ordering, in the transaction that stores a webhook with ordering.
func startPlaces(tx *gorm.DB, w *domain.Webhook) error {
	if w.Ordering != domain.OrderingShipment {
		return nil
	}
	return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&orderingAccountRow{Account: w.Account}).Error
}

// startedPlaces makes this process give places to the account's events from the next commit on.
func (p *Pipeline) startedPlaces(w *domain.Webhook) {
	if w.Ordering != domain.OrderingShipment {
		return
	}
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	known := p.places.accountsKnown.Load()
	if known == nil {
		return // they are read before the first commit
	}
	if _, ok := known.accounts[w.Account]; ok {
		return
	}
	accounts := maps.Clone(known.accounts)
	accounts[w.Account] = struct{}{}
	p.places.accountsKnown.Store(&orderingAccounts{known.version, accounts})
}

// placeLate gives places to events that were committed before this process knew that their account has ordering. It runs
// before the publisher is answered. So these events come before all events that are published after that answer, and
// after all events that were answered before these were published. If there is no error, each of them has a place.
func (p *Pipeline) placeLate(ctx context.Context, subs []Submission, receipts []Receipt) error {
	known := p.places.accountsKnown.Load()
	late := make(map[string][]*AcceptedEvent)
	for i := range subs {
		if _, ok := known.accounts[subs[i].Account]; !ok {
			continue
		}
		for j := range receipts[i].Events {
			if a := &receipts[i].Events[j]; a.Place == 0 && !a.Duplicate {
				late[subs[i].Account] = append(late[subs[i].Account], a)
			}
		}
	}
	for account, events := range late {
		if err := p.placeAccount(ctx, account, events); err != nil {
			return store.Wrap("give places", err)
		}
	}
	return nil
}

// placeAccount gives the next places of an account to events of one commit.
func (p *Pipeline) placeAccount(ctx context.Context, account string, events []*AcceptedEvent) error {
	var last int64
	err := p.db.Again(ctx, func() error {
		return p.db.Writing(ctx).Transaction(func(tx *gorm.DB) error {
			if err := tx.Raw(sqlTakePlaces, len(events), account).Row().Scan(&last); err != nil {
				return fmt.Errorf("take places: %w", err)
			}
			for i, e := range events {
				place := last - int64(len(events)) + int64(i) + 1
				if err := tx.Exec(sqlSetPlace, place, p.db.Moment(e.ReceivedAt), account, e.ID).Error; err != nil {
					return fmt.Errorf("set place: %w", err)
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for i, e := range events {
		e.Place = last - int64(len(events)) + int64(i) + 1
	}
	return nil
}
