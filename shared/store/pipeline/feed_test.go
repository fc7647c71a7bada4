package pipeline_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func feedTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"order":     testFeedOrder,
		"choice":    testFeedChoice,
		"cursors":   testFeedCursors,
		"names":     testNamedCursors,
		"retention": testFeedRetention,
		"overlap":   testFeedOverlap,
		"writers":   testFeedWriters,
		"restore":   testFeedRestored,
		"publish":   testFeedOfManyPublishers,
		"pulled":    testEndPushed,
	}
}

// feed reads all of a webhook's feed from a cursor on.
func (b *bench) feed(t *testing.T, w domain.Webhook, after string, limit int) (ids []string, cursor string) {
	t.Helper()
	for {
		page, err := b.Feed(t.Context(), pipeline.FeedQuery{Account: w.Account, Webhook: w.ID, Types: w.Events, After: after, Limit: limit})
		if err != nil {
			t.Fatalf("read feed: %v", err)
		}
		for _, e := range page.Events {
			ids = append(ids, e.ID)
		}
		if after = page.Cursor; page.Done {
			return ids, after
		}
	}
}

// feedIs reads a webhook's feed after a cursor in pages of limit until it has exactly the wanted
// events, and returns the cursor after them. One reading may stop too early: a transaction of
// another test that ends at that moment counts as one that may still add events.
func (b *bench) feedIs(t *testing.T, what string, w domain.Webhook, after string, limit int, want ...string) (cursor string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		got, cursor := b.feed(t, w, after, limit)
		if slices.Equal(got, want) {
			return cursor
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: %v, want %v", what, got, want)
			return cursor
		}
	}
}

// Batches keep their order, also against that of ids and times; what came over the bus comes
// when it was recorded.
func testFeedOrder(t *testing.T, b *bench) {
	w := b.Webhook(t)
	var want []string
	batch := func(ids ...string) {
		sub := pipeline.Submission{Account: account}
		for i, id := range ids {
			e := pipelinetest.Event(id)
			e.Type = domain.EventTypes()[i%len(domain.EventTypes())]
			sub.Events = append(sub.Events, e)
		}
		b.Submit(t, sub)
		want = append(want, ids...)
	}
	batch("evt_9", "evt_3", "evt_7", "evt_1")
	b.Clock.Advance(-time.Minute) // another process's clock
	batch("evt_8", "evt_2")
	over := pipelinetest.Event("evt_bus")
	over.ReceivedAt = noon.Add(-time.Hour)
	b.RecordedBatch(t, domain.RecordBatch{Events: []domain.Event{over}})
	want = append(want, "evt_bus")
	batch("evt_5")
	b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event("evt_5")}}) // a repeat
	for limit := range 4 {
		cursor := b.feedIs(t, fmt.Sprintf("pages of %d", limit+1), w, "", limit+1, want...)
		if rest, _ := b.feed(t, w, cursor, 1); len(rest) > 0 {
			t.Errorf("after the end: %v", rest)
		}
	}
	cursor := b.feedIs(t, "one page", w, "", 100, want...)
	batch("evt_late")
	b.feedIs(t, "after the end", w, cursor, 10, "evt_late")
}

// A feed has the account's events of the webhook's types, without the samples of tests.
func testFeedChoice(t *testing.T, b *bench) {
	created := b.Webhook(t, func(w *domain.Webhook) { w.Events = []domain.EventType{domain.ShipmentCreated} })
	if _, err := b.RequestTest(t.Context(), pipelinetest.Event("evt_test"), created.ID, ""); err != nil {
		t.Fatal(err)
	}
	other := pipelinetest.Event("evt_other")
	other.Type = domain.EventTypes()[1]
	b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{other, pipelinetest.Event("evt_mine")}})
	b.Submit(t, pipeline.Submission{Account: "stranger", Events: []domain.Event{pipelinetest.Event("evt_strange")}})
	b.feedIs(t, "a type", created, "", 10, "evt_mine")
	page, err := b.Feed(t.Context(), pipeline.FeedQuery{
		Account: account, Webhook: created.ID, Types: domain.EventTypes(), Limit: 1,
		Match: func(e domain.Event) bool { return e.ID == "evt_mine" },
	})
	if err != nil || len(page.Events) != 0 || page.Done || page.Cursor == "" {
		t.Errorf("a page without matches: %+v, %v", page, err)
	}
}

func testFeedCursors(t *testing.T, b *bench) {
	mine, other := b.Webhook(t), b.Webhook(t)
	b.Accepted(t, "evt_1")
	cursor := b.feedIs(t, "an event", mine, "", 1, "evt_1")
	damaged := []byte(cursor)
	damaged[len(damaged)/2] ^= 1
	for name, q := range map[string]pipeline.FeedQuery{
		"another webhook's": {Account: account, Webhook: other.ID, After: cursor},
		"another account's": {Account: "stranger", Webhook: mine.ID, After: cursor},
		"damaged":           {Account: account, Webhook: mine.ID, After: string(damaged)},
		"cut":               {Account: account, Webhook: mine.ID, After: cursor[:len(cursor)-3]},
		"of a list":         {Account: account, Webhook: mine.ID, After: store.Cursor{List: "e", Account: account, ID: "evt_1"}.Encode()},
	} {
		q.Types = domain.EventTypes()
		if _, err := b.Feed(t.Context(), q); !errors.Is(err, store.ErrCursor) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func testNamedCursors(t *testing.T, b *bench) {
	w, other := b.Webhook(t), b.Webhook(t)
	first := b.Accepted(t, "evt_1")
	cursor := b.feedIs(t, "an event", w, "", 10, "evt_1")
	last := b.Accepted(t, "evt_2")
	if _, err := b.SetFeedCursor(t.Context(), account, w.ID, "main", cursor); err != nil {
		t.Fatal(err)
	}
	got, err := b.GetFeedCursor(t.Context(), account, w.ID, "main")
	if want := (pipeline.FeedCursor{Name: "main", Cursor: cursor, UpdatedAt: b.Clock.Now()}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, c := range []struct {
		event domain.Event
		want  []string
	}{{first, []string{"main"}}, {last, nil}} {
		if names, err := b.ReadBeyond(t.Context(), w.ID, c.event.Key()); err != nil || !slices.Equal(names, c.want) {
			t.Errorf("read beyond %s: %v, %v", c.event.ID, names, err)
		}
	}
	_, err = b.GetFeedCursor(t.Context(), account, other.ID, "main")
	storetest.WantNotFound(t, "another webhook's name", err)
	_, err = b.SetFeedCursor(t.Context(), "stranger", w.ID, "main", cursor)
	if err == nil {
		t.Error("a stranger set a cursor")
	}
	for i := range pipeline.MaxFeedCursors - 1 {
		if _, err := b.SetFeedCursor(t.Context(), account, w.ID, "n"+strconv.Itoa(i), cursor); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.SetFeedCursor(t.Context(), account, w.ID, "more", cursor); !errors.Is(err, domain.ErrLimit) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := b.SetFeedCursor(t.Context(), account, w.ID, "main", cursor); err != nil {
		t.Errorf("a name that there is: %v", err)
	}
	storetest.WantNotFound(t, "a stranger deletes a cursor", b.DeleteFeedCursor(t.Context(), "stranger", w.ID, "main"))
	storetest.WantNotFound(t, "of another webhook", b.DeleteFeedCursor(t.Context(), account, other.ID, "main"))
	if err := b.DeleteFeedCursor(t.Context(), account, w.ID, "main"); err != nil {
		t.Error(err)
	}
	storetest.WantNotFound(t, "deleted already", b.DeleteFeedCursor(t.Context(), account, w.ID, "main"))
	if _, err := b.SetFeedCursor(t.Context(), account, w.ID, "more", cursor); err != nil {
		t.Errorf("the place of a name that was deleted: %v", err)
	}
}

// A cursor is good as long as nothing after it was dropped; one that is read with goes on.
func testFeedRetention(t *testing.T, b *bench) {
	const retention = 48 * time.Hour
	w := b.Webhook(t)
	b.Accepted(t, "evt_old")
	old := b.feedIs(t, "an old event", w, "", 10, "evt_old")
	read := old
	for range 5 {
		b.Clock.Advance(24 * time.Hour)
		if _, err := b.Maintain(t.Context(), b.Clock.Now(), retention); err != nil {
			t.Fatal(err)
		}
		_, read = b.feed(t, w, read, 10)
	}
	if _, err := b.Feed(t.Context(), pipeline.FeedQuery{Account: account, Webhook: w.ID, Types: w.Events, After: old}); !errors.Is(err, pipeline.ErrBeyondRetention) {
		t.Errorf("an old cursor: %v", err)
	}
	b.Accepted(t, "evt_new")
	for _, after := range []string{"", read} {
		b.feedIs(t, "after "+after, w, after, 10, "evt_new")
	}
}

// open begins a transaction of another writer that has added an event.
func (b *bench) open(t *testing.T, id string) *sql.Tx {
	t.Helper()
	return b.begin(t, id, true)
}

func (b *bench) begin(t *testing.T, id string, locked bool) *sql.Tx {
	t.Helper()
	writing, _ := b.DB.Handles()
	tx, err := writing.BeginTx(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	if locked && !b.DB.SQLite() {
		if _, err := tx.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock_shared($1)", store.FeedLock); err != nil {
			t.Fatal(err)
		}
	}
	e := pipelinetest.Event(id)
	_, err = tx.ExecContext(t.Context(), `INSERT INTO events (day, account, id, type, occurred_at, payload, received_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		b.DB.Date(noon), e.Account, e.ID, string(e.Type), e.Timestamp, e.Payload, b.DB.Moment(b.Clock.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// What is committed while an older transaction runs waits for it, and nothing is skipped.
func testFeedOverlap(t *testing.T, b *bench) {
	if b.DB.SQLite() {
		return // one writer: no transaction overlaps another
	}
	w := b.Webhook(t)
	b.Accepted(t, "evt_before")
	writing, _ := b.DB.Handles()
	bystander, err := writing.BeginTx(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Rollback() }()
	if _, err := bystander.ExecContext(t.Context(), "UPDATE config_version SET version = version"); err != nil {
		t.Fatal(err)
	}
	b.Accepted(t, "evt_beside")
	ahead := b.feedIs(t, "while a transaction runs that adds no event", w, "", 10, "evt_before", "evt_beside")
	// It counts when the look at the locks finds it no more, as it does when it holds the lock.
	if _, err := bystander.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock_shared($1)", store.FeedLock); err != nil {
		t.Fatal(err)
	}
	if got, again := b.feed(t, w, ahead, 10); len(got) > 0 || again != ahead {
		t.Errorf("the end of the feed went back from %s to %s with %v", ahead, again, got)
	}
	if err := bystander.Rollback(); err != nil {
		t.Fatal(err)
	}
	late, never := b.open(t, "evt_late"), b.open(t, "evt_never")
	b.Accepted(t, "evt_after")
	cursor := b.feedIs(t, "while it runs", w, "", 10, "evt_before", "evt_beside")
	if err := errors.Join(late.Commit(), never.Rollback()); err != nil {
		t.Fatal(err)
	}
	b.feedIs(t, "when it has ended", w, cursor, 10, "evt_late", "evt_after")
}

// Each way that adds events is waited for while it runs: here it waits for a stranger, whom no
// feed waits for, to give up one of its ids.
func testFeedWriters(t *testing.T, b *bench) {
	if b.DB.SQLite() {
		return // one writer: no transaction overlaps another
	}
	w := b.Webhook(t)
	events := func(name string) []domain.Event {
		list := []domain.Event{pipelinetest.Event("evt_" + name + "_1"), pipelinetest.Event("evt_" + name + "_2")}
		for i := range list {
			list[i].ReceivedAt = b.Clock.Now()
		}
		return list
	}
	cursor := ""
	for name, add := range map[string]func(events []domain.Event) error{
		"accept": func(events []domain.Event) error {
			_, err := b.Accept(t.Context(), []pipeline.Submission{{Account: account, Events: events}})
			return err
		},
		"keyed": func(events []domain.Event) error {
			once := &pipeline.Once{Path: "/v1/events", Key: "key", Respond: func([]pipeline.AcceptedEvent) (int, []byte) { return 202, nil }}
			_, err := b.Accept(t.Context(), []pipeline.Submission{{Account: account, Events: events, Once: once}})
			return err
		},
		"record": func(events []domain.Event) error {
			_, err := b.Record(t.Context(), []domain.RecordBatch{{Events: events, Outcomes: []domain.Outcome{b.Outcome(events[0], w, domain.StatusDelivered)}}})
			return err
		},
	} {
		stranger := b.begin(t, "evt_"+name+"_2", false)
		added := make(chan error, 1)
		go func() { added <- add(events(name)) }()
		for deadline := time.Now().Add(time.Minute); !b.waits(t); {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not wait", name)
			}
		}
		b.Accepted(t, "evt_"+name+"_after")
		got, next := b.feed(t, w, cursor, 10)
		if len(got) > 0 {
			t.Errorf("%s: while it runs: %v", name, got)
		}
		if err := errors.Join(stranger.Rollback(), <-added); err != nil {
			t.Fatal(err)
		}
		cursor = b.feedIs(t, name+": when it has ended", w, next, 10, "evt_"+name+"_1", "evt_"+name+"_2", "evt_"+name+"_after")
	}
}

// waits reports whether a transaction of this database waits for another one.
func (b *bench) waits(t *testing.T) bool {
	t.Helper()
	var waits bool
	err := b.DB.Reading(t.Context()).Raw(`SELECT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE NOT l.granted AND l.locktype = 'transactionid' AND a.datname = current_database())`).Scan(&waits).Error
	if err != nil {
		t.Fatal(err)
	}
	return waits
}

// 32 publishers, while transactions are held open for three seconds each: a reader that follows has
// each event once.
func testFeedOfManyPublishers(t *testing.T, b *bench) {
	const publishers, each = 32, 60
	w := b.Webhook(t)
	var publishing, holding sync.WaitGroup
	published := make(chan struct{})
	for p := range publishers {
		publishing.Go(func() {
			for i := range each {
				_, err := b.Accept(t.Context(), []pipeline.Submission{{Account: account, Events: []domain.Event{pipelinetest.Event(fmt.Sprintf("evt_%02d_%03d", p, i))}}})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	held := 0
	if !b.DB.SQLite() {
		held = 3
	}
	for i := range held {
		holding.Go(func() {
			<-time.After(time.Duration(i) * 300 * time.Millisecond)
			tx := b.open(t, fmt.Sprintf("evt_held_%d", i))
			<-time.After(3 * time.Second)
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		})
	}
	go func() {
		publishing.Wait()
		holding.Wait()
		close(published)
	}()
	seen := map[string]int{}
	last := map[string]string{}
	cursor := ""
	var end time.Time // of the reading, once all is published
	for end.IsZero() || len(seen) < publishers*each+held && time.Now().Before(end) {
		ids, next := b.feed(t, w, cursor, 50)
		for _, id := range ids {
			seen[id]++
			publisher := id[:6]
			if publisher != "evt_he" && last[publisher] >= id {
				t.Errorf("%s comes after %s, which was accepted later", id, last[publisher])
			}
			last[publisher] = id
		}
		cursor = next
		select {
		case <-published:
			end, published = time.Now().Add(10*time.Second), nil
		default:
		}
	}
	b.feedIs(t, "after the end", w, cursor, 10)
	if len(seen) != publishers*each+held {
		t.Errorf("%d events, want %d", len(seen), publishers*each+held)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}

// After a restore the numbers of commits begin anew, or go on from those of the backup. Once
// the database is readied, a feed keeps its order, and no cursor skips what comes.
func testFeedRestored(t *testing.T, b *bench) {
	run := func(statement string) {
		t.Helper()
		writing, _ := b.DB.Handles()
		tx, err := writing.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.ExecContext(t.Context(), statement)
		if err := errors.Join(err, tx.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	restored := func() {
		t.Helper()
		if err := b.DB.Restored(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w := b.Webhook(t)
	b.Accepted(t, "evt_2")
	b.Accepted(t, "evt_1")
	early := b.feedIs(t, "before", w, "", 10, "evt_2", "evt_1")
	// The server that is lost had given many more numbers when the receiver read last.
	run("UPDATE feed_order SET xact = xact + 1000000")
	run("UPDATE events SET xact = xact + 1000000")
	late := b.feedIs(t, "later", w, "", 10, "evt_2", "evt_1")
	run("UPDATE feed_order SET xact = xact - 1000000")

	restored()
	b.Accepted(t, "evt_4")
	b.Accepted(t, "evt_3")
	for name, c := range map[string]struct {
		after string
		want  []string
	}{
		"anew": {"", []string{"evt_2", "evt_1", "evt_4", "evt_3"}}, "from an old cursor": {early, []string{"evt_2", "evt_1", "evt_4", "evt_3"}},
		"from the last cursor": {late, []string{"evt_4", "evt_3"}},
	} {
		b.feedIs(t, name, w, c.after, 10, c.want...)
	}
	if b.DB.SQLite() {
		return
	}
	open := b.open(t, "evt_open") // the horizon still waits for what runs
	b.Accepted(t, "evt_after")
	b.feedIs(t, "while a transaction runs", w, late, 10, "evt_4", "evt_3")
	if err := open.Commit(); err != nil {
		t.Fatal(err)
	}
	restored() // a second time
	b.Accepted(t, "evt_5")
	b.feedIs(t, "after another restore", w, late, 10, "evt_4", "evt_3", "evt_open", "evt_after", "evt_5")
}

// What is undelivered ends when a webhook is read by pull; an attempt in flight tells how it
// ended all the same.
func testEndPushed(t *testing.T, b *bench) {
	w, other := b.Webhook(t), b.Webhook(t)
	e := b.Accepted(t, "evt_1")
	waiting, done := b.Outcome(e, w, domain.StatusRetrying), b.Outcome(b.Accepted(t, "evt_2"), w, domain.StatusDelivered)
	others := b.Outcome(e, other, domain.StatusRetrying)
	b.Recorded(t, waiting, done, others)
	if _, _, err := b.UpdateWebhook(t.Context(), account, w.ID, func(w *domain.Webhook) error {
		w.Delivery = domain.DeliveryPull
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := b.EndPushed(t.Context(), w.ID); n != 1 || err != nil {
		t.Fatalf("ended %d, %v", n, err)
	}
	for _, c := range []struct {
		id     domain.DeliveryID
		status domain.Status
		reason string
	}{{waiting.Delivery, domain.StatusFailed, domain.ReasonPull}, {done.Delivery, domain.StatusDelivered, ""}, {others.Delivery, domain.StatusRetrying, ""}} {
		if d, _ := b.Delivery(t, c.id); d.Status != c.status || d.Reason != c.reason {
			t.Errorf("%s: %s %q, want %s %q", c.id, d.Status, d.Reason, c.status, c.reason)
		}
	}
	b.Recorded(t, b.After(waiting, domain.StatusDelivered))
	if d, _ := b.Delivery(t, waiting.Delivery); d.Status != domain.StatusDelivered {
		t.Errorf("after the attempt that was in flight: %s", d.Status)
	}
}
