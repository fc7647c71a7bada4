package fanout

import (
	"context"
	"errors"
	"time"

	"waybill.dev/shared/bus"
)

// Accounts knows which accounts exist.
type Accounts interface {
	Known(name string) bool                             // does not ask the database
	Ask(ctx context.Context, name string) (bool, error) // asks the database
}

const (
	// maxStrangers is how many messages of unknown accounts may wait until the database is asked
	// about their account. More messages are returned to the bus for postponeTime, so that they don't
	// hold up others.
	maxStrangers = 1024
	postponeTime = 5 * time.Second
	askTime      = 2 * time.Second
)

var errAccount = errors.New("the account in the subject does not exist")

// stranger is a message whose account is not known here.
type stranger struct {
	message *bus.Message
	account string
}

// askLater queues a message until the database is asked whether its account exists. Messages of other
// accounts don't wait for that.
func (f *Fanout) askLater(m *bus.Message, account string) {
	select {
	case f.strangers <- stranger{m, account}:
	default:
		f.postpone(m)
	}
}

func (f *Fanout) postpone(m *bus.Message) {
	f.inFlight.Done(m)
	m.ReleaseAfter(postponeTime)
}

// askAccounts asks the database until ctx is done: about all accounts with waiting messages at once, one time for each.
// The question comes after the messages, so an account that was made before they were published is found. While
// the database can't be asked, no message is rejected.
func (f *Fanout) askAccounts(ctx context.Context) {
	for {
		var waiting []stranger
		select {
		case <-ctx.Done():
		case first := <-f.strangers:
			waiting = append(waiting, first)
		}
		for range len(f.strangers) {
			waiting = append(waiting, <-f.strangers)
		}
		if ctx.Err() != nil {
			for _, s := range waiting {
				f.inFlight.Done(s.message)
				s.message.Release()
			}
			return
		}
		answers := make(map[string]error) // nil: it exists
		for _, s := range waiting {
			err, asked := answers[s.account]
			if !asked {
				err = f.checkAccount(ctx, s.account)
				answers[s.account] = err
			}
			switch {
			case err == nil:
				f.takePublished(ctx, s.message, s.account)
			case errors.Is(err, errAccount):
				f.reject(ctx, s.message, err)
			default:
				f.postpone(s.message)
			}
		}
	}
}

// checkAccount returns errAccount for an account that does not exist, and another error if that is not known.
func (f *Fanout) checkAccount(ctx context.Context, account string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	exists, err := f.options.Accounts.Ask(ctx, account)
	if err == nil && !exists {
		return errAccount
	}
	if err != nil {
		f.options.Logger.Debug("the database can't say whether an account exists; its events wait", "error", err)
	}
	return err
}
