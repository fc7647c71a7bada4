package dispatcher_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// account makes an account.
func (b *bench) account(name string) domain.Account {
	b.t.Helper()
	writing, _ := b.store.Handles()
	made := domain.Account{ID: "acct_" + uuid.NewString(), Name: name, CreatedOn: b.store.Now()}
	_, err := writing.ExecContext(b.t.Context(), "INSERT INTO accounts (id, name, created_at) VALUES ($1, $2, $3)",
		made.ID, made.Name, b.store.Moment(made.CreatedOn))
	if err != nil {
		b.t.Fatalf("create account: %v", err)
	}
	return made
}

// known waits until the dispatcher has a webhook in its index.
func (b *bench) known(w domain.Webhook) {
	b.t.Helper()
	version := []byte(strconv.FormatInt(w.Version, 10))
	// A dispatcher that has not begun to listen is no answer.
	b.eventually(func() error {
		if n := b.bus.AnnounceAnswered(b.t.Context(), bus.SubjectConfig, version, 2*time.Second, 30*time.Second); n != 1 {
			return fmt.Errorf("%d dispatchers know the webhook", n)
		}
		return nil
	})
}

func eventMessage(account, id string) *nats.Msg {
	return &nats.Msg{
		Subject: "events." + account + ".shipment.created",
		Data:    []byte(`{"id":"` + id + `","type":"shipment.created","data":{"shipmentId":"shp_1"}}`),
	}
}

// An event for an account that there is not is rejected, whatever its name is like, and what
// is published beside it is delivered and recorded. Whoever gets the name later sees nothing
// of it, and what is published then is delivered.
func TestEventsOfUnknownAccountsAreRejected(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		w := b.webhook(s.URL)
		b.dispatch()
		nc := b.client()
		strange := []string{"defalt", strings.Repeat("a", 65), strings.Repeat("a", 2800), "a\x00b", "a\xff\xfe", "Default", "defalt"}
		for i, account := range strange {
			if err := nc.PublishMsg(eventMessage(account, fmt.Sprint("strange", i))); err != nil {
				t.Fatal(err)
			}
			if err := nc.PublishMsg(eventMessage(domain.DefaultAccount, fmt.Sprint("good", i))); err != nil {
				t.Fatal(err)
			}
		}
		b.deliveries(w.ID, domain.StatusDelivered, len(strange))
		b.eventually(func() error {
			if n := b.rejected(""); n != len(strange) {
				return fmt.Errorf("%d rejected, want %d", n, len(strange))
			}
			return nil
		})
		list, _, err := b.bus.ListRejected(t.Context(), "defalt", time.Time{}, 10, 0)
		if err != nil || len(list) != 2 || list[0].Reason != "the account in the subject does not exist" {
			t.Fatalf("rejected %v, error %v", list, err)
		}

		made := b.account("defalt")
		late := newSink(t, nil)
		b.known(b.webhook(late.URL, func(w *domain.Webhook) { w.Account = made.Name }))
		if err := nc.PublishMsg(eventMessage(made.Name, "later")); err != nil {
			t.Fatal(err)
		}
		b.eventually(func() error {
			if _, ids := late.seen(); len(ids) != 1 || ids[0] != "later" {
				return fmt.Errorf("delivered %v, want what was published when the account was there", ids)
			}
			return nil
		})
		if list, _, err := b.bus.ListRejected(t.Context(), made.Name, made.CreatedOn, 10, 0); err != nil || len(list) != 0 {
			t.Errorf("listed %v, error %v, want nothing from before the account was made", list, err)
		}
	})
}

// rejected counts the rejected messages, of one account or of all.
func (b *bench) rejected(account string) int {
	b.t.Helper()
	js, err := jetstream.New(b.client())
	if err != nil {
		b.t.Fatal(err)
	}
	stream, err := js.Stream(b.t.Context(), bus.StreamRejected)
	if err != nil {
		b.t.Fatal(err)
	}
	info, err := stream.Info(b.t.Context(), jetstream.WithSubjectFilter(bus.RejectedSubject(">")))
	if err != nil {
		b.t.Fatal(err)
	}
	if account != "" {
		return int(info.State.Subjects[bus.RejectedSubject(account)])
	}
	return int(info.State.Msgs)
}

// While the database can't be asked nothing is rejected, and nothing else waits.
func TestEventsOfUnknownAccountsWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	b, own := awayBench(t)
	s := newSink(t, nil)
	b.webhook(s.URL)
	b.dispatch()
	made := b.account("late")
	late := newSink(t, func(call) int { return http.StatusOK })
	b.known(b.webhook(late.URL, func(w *domain.Webhook) { w.Account = made.Name }))
	if err := own.Halt(); err != nil {
		t.Fatal(err)
	}
	nc := b.client()
	const most = 2000 // more than may wait to be asked for
	for i := range most {
		if err := nc.PublishMsg(eventMessage("late", fmt.Sprint("late", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.PublishMsg(eventMessage(domain.DefaultAccount, "known")); err != nil {
		t.Fatal(err)
	}
	b.eventually(func() error {
		if _, ids := s.seen(); len(ids) != 1 {
			return fmt.Errorf("%d events of the known account delivered", len(ids))
		}
		return nil
	})
	if n := b.rejected(""); n != 0 {
		t.Errorf("%d messages were rejected because the database is away", n)
	}
	if err := own.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.eventually(func() error {
		if _, ids := late.seen(); len(ids) != most {
			return fmt.Errorf("%d of %d events delivered after the database was back", len(ids), most)
		}
		return nil
	})
}
