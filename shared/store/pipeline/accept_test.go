package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func acceptTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"stores events as published":               testAcceptStores,
		"knows repeats within 24 hours":            testAcceptDedupe,
		"knows repeats within one commit":          testAcceptDedupeWithin,
		"keeps accounts apart":                     testAcceptAccounts,
		"sees webhook changes answered before":     testAcceptVersion,
		"counts each id once under concurrency":    testAcceptConcurrent,
		"answers a key once":                       testAcceptOnce,
		"answers a key once under concurrency":     testAcceptOnceConcurrent,
		"answers keys that share a commit":         testAcceptOnceShared,
		"takes a key again after 24 hours":         testAcceptOnceExpires,
		"accepts on a day without maintenance":     testAcceptLater,
		"accepts nothing of what fails":            testAcceptAtomic,
		"accepts empty submissions":                testAcceptEmpty,
		"rows are found again from the relay":      testAcceptOutbox,
		"versions follow the order of the answer":  testVersionOrder,
		"gives places in the order of submissions": testPlaces,
		"gives places without gaps":                testPlacesConcurrent,
		"gives places from a second process":       testPlacesOfAnother,
	}
}

func testAcceptStores(t *testing.T, b *bench) {
	b.Clock.Advance(1234567 * time.Nanosecond)
	e := b.Accepted(t, "evt_1")
	if want := noon.Add(time.Millisecond); !e.ReceivedAt.Equal(want) {
		t.Errorf("received at %v, want %v", e.ReceivedAt, want)
	}
	got, err := b.GetEvent(t.Context(), account, "evt_1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("stored event (-accepted +stored):\n%s", diff)
	}
	if _, err := b.GetEvent(t.Context(), "other", "evt_1"); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("another account's event: %v, want not found", err)
	}
}

func testAcceptDedupe(t *testing.T, b *bench) {
	b.Clock.Set(time.Date(2025, time.June, 10, 23, 59, 59, 999e6, time.UTC))
	b.Accepted(t, "evt_1")
	for _, step := range []struct {
		advance   time.Duration
		duplicate bool
	}{
		{0, true},
		{2 * time.Millisecond, true}, // over midnight
		{12 * time.Hour, true},
		{12*time.Hour - 3*time.Millisecond, true}, // 23 h 59 min 59.999 s after the first
		{time.Millisecond, false},                 // 24 h
		{time.Hour, true},
	} {
		b.Clock.Advance(step.advance)
		receipt := b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event("evt_1")}})
		if got := receipt.Events[0].Duplicate; got != step.duplicate {
			t.Errorf("at %v: duplicate %v, want %v", b.Clock.Now(), got, step.duplicate)
		}
		if receipt.Version == 0 {
			t.Error("no configuration version")
		}
	}
}

func testAcceptDedupeWithin(t *testing.T, b *bench) {
	b.Accepted(t, "evt_0")
	receipts, err := b.Accept(t.Context(), []pipeline.Submission{
		{Account: account, Events: []domain.Event{pipelinetest.Event("evt_1"), pipelinetest.Event("evt_2"), pipelinetest.Event("evt_1")}},
		{Account: account, Events: []domain.Event{pipelinetest.Event("evt_2"), pipelinetest.Event("evt_3"), pipelinetest.Event("evt_0")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got [][]bool
	for _, r := range receipts {
		var duplicates []bool
		for _, e := range r.Events {
			duplicates = append(duplicates, e.Duplicate)
			if e.Duplicate != e.ReceivedAt.IsZero() {
				t.Errorf("%s: duplicate %v, received at %v", e.ID, e.Duplicate, e.ReceivedAt)
			}
		}
		got = append(got, duplicates)
	}
	if diff := cmp.Diff([][]bool{{false, false, true}, {true, false, true}}, got); diff != "" {
		t.Errorf("duplicates (-want +got):\n%s", diff)
	}
}

func testAcceptAccounts(t *testing.T, b *bench) {
	receipts, err := b.Accept(t.Context(), []pipeline.Submission{
		{Account: "one", Events: []domain.Event{pipelinetest.Event("evt_1")}},
		{Account: "two", Events: []domain.Event{pipelinetest.Event("evt_1")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range receipts {
		if r.Events[0].Duplicate {
			t.Errorf("submission %d: duplicate of another account's event", i)
		}
	}
	got, err := b.GetEvent(t.Context(), "two", "evt_1")
	if err != nil || got.Account != "two" {
		t.Errorf("event of account two: %q, %v", got.Account, err)
	}
}

func testAcceptVersion(t *testing.T, b *bench) {
	before := b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event("evt_1")}}).Version
	w := b.Webhook(t)
	after := b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event("evt_2")}}).Version
	if before >= w.Version || after != w.Version {
		t.Errorf("versions %d, webhook %d, %d", before, w.Version, after)
	}
	page, _, err := b.Unsettled(t.Context(), noon.Add(time.Hour), pipeline.OutboxCursor{}, 10)
	if err != nil || len(page) != 2 || page[0].Version != before || page[1].Version != after {
		t.Errorf("outbox %+v, %v", page, err)
	}
}

func testAcceptConcurrent(t *testing.T, b *bench) {
	const callers, rounds, ids = 8, 5, 40
	var mu sync.Mutex
	total := map[string]int{}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for round := range rounds {
				var events []domain.Event
				for i := range ids {
					// Each caller in another order: neither may wait for the other for ever.
					events = append(events, pipelinetest.Event(fmt.Sprintf("evt_%d_%d", round, (i*(2*c+1)+c)%ids)))
				}
				fresh := b.acceptFresh(t, events)
				mu.Lock()
				for _, id := range fresh {
					total[id]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(total) != rounds*ids {
		t.Errorf("%d ids accepted, want %d", len(total), rounds*ids)
	}
	for id, n := range total {
		if n != 1 {
			t.Errorf("%s accepted %d times", id, n)
		}
	}
}

// acceptFresh submits events and returns the ids that were no repeats.
func (b *bench) acceptFresh(t *testing.T, events []domain.Event) []string {
	t.Helper()
	receipts, err := b.Accept(t.Context(), []pipeline.Submission{{Account: account, Events: events}})
	if err != nil {
		t.Errorf("accept: %v", err)
		return nil
	}
	var fresh []string
	for _, e := range receipts[0].Events {
		if !e.Duplicate {
			fresh = append(fresh, e.ID)
		}
	}
	return fresh
}

func once(key, body string, respond func([]pipeline.AcceptedEvent) (int, []byte)) *pipeline.Once {
	var hash [32]byte
	copy(hash[:], body)
	return &pipeline.Once{Path: "/v1/events", Key: key, BodyHash: hash, Respond: respond}
}

func respondIDs(accepted []pipeline.AcceptedEvent) (int, []byte) {
	var body bytes.Buffer
	for _, a := range accepted {
		fmt.Fprintf(&body, "%s %v;", a.ID, a.Duplicate)
	}
	return 202, body.Bytes()
}

func testAcceptOnce(t *testing.T, b *bench) {
	sub := func(id, body string) pipeline.Submission {
		return pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event(id)}, Once: once("key-1", body, respondIDs)}
	}
	first := b.Submit(t, sub("evt_1", "a"))
	if first.Replay != nil || first.Err != nil || first.Events[0].Duplicate {
		t.Fatalf("first: %+v", first)
	}
	second := b.Submit(t, sub("evt_2", "a"))
	want := &pipeline.StoredResponse{Status: 202, Body: []byte("evt_1 false;")}
	if diff := cmp.Diff(want, second.Replay); diff != "" {
		t.Errorf("second answer (-want +got):\n%s", diff)
	}
	if third := b.Submit(t, sub("evt_3", "b")); !errors.Is(third.Err, domain.ErrConflict) {
		t.Errorf("another body: %v, want a conflict", third.Err)
	}
	other := sub("evt_4", "c")
	other.Account = "other"
	if r := b.Submit(t, other); r.Replay != nil || r.Err != nil {
		t.Errorf("another account's key: %+v", r)
	}
	elsewhere := sub("evt_5", "c")
	elsewhere.Once.Path = "/v1/webhooks"
	if r := b.Submit(t, elsewhere); r.Replay != nil || r.Err != nil {
		t.Errorf("the key on another path: %+v", r)
	}
	for _, id := range []string{"evt_2", "evt_3"} {
		if _, err := b.GetEvent(t.Context(), account, id); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("%s was stored: %v", id, err)
		}
	}
}

func testAcceptOnceConcurrent(t *testing.T, b *bench) {
	const callers = 50
	answers := make([]string, callers)
	var effects sync.Map
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			id := fmt.Sprintf("evt_%d", i)
			receipts, err := b.Accept(t.Context(), []pipeline.Submission{{
				Account: account, Events: []domain.Event{pipelinetest.Event(id)}, Once: once("key", "same", respondIDs),
			}})
			switch {
			case err != nil:
				t.Errorf("accept: %v", err)
			case receipts[0].Replay != nil:
				answers[i] = string(receipts[0].Replay.Body)
			default:
				_, body := respondIDs(receipts[0].Events)
				answers[i] = string(body)
				effects.Store(id, true)
			}
		})
	}
	wg.Wait()
	n := 0
	effects.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	for i, a := range answers {
		if a != answers[0] || a == "" {
			t.Errorf("caller %d was answered %q, caller 0 %q", i, a, answers[0])
		}
	}
	events, _, err := b.ListEvents(t.Context(), pipeline.EventFilter{Account: account})
	if err != nil || len(events) != 1 {
		t.Errorf("%d events stored, %v", len(events), err)
	}
}

func testAcceptOnceShared(t *testing.T, b *bench) {
	sub := func(id, key, body string) pipeline.Submission {
		return pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event(id)}, Once: once(key, body, respondIDs)}
	}
	receipts, err := b.Accept(t.Context(), []pipeline.Submission{
		sub("evt_1", "key-b", "a"), sub("evt_2", "key-b", "a"), sub("evt_3", "key-b", "other"), sub("evt_4", "key-a", "a"),
		{Account: account, Events: []domain.Event{pipelinetest.Event("evt_5")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if receipts[0].Replay != nil || receipts[3].Replay != nil || receipts[4].Replay != nil {
		t.Error("a first use was replayed")
	}
	if r := receipts[1].Replay; r == nil || string(r.Body) != "evt_1 false;" {
		t.Errorf("second use in the commit: %+v", receipts[1])
	}
	if !errors.Is(receipts[2].Err, domain.ErrConflict) {
		t.Errorf("another body in the commit: %+v", receipts[2])
	}
	events, _, err := b.ListEvents(t.Context(), pipeline.EventFilter{Account: account})
	if err != nil || len(events) != 3 {
		t.Errorf("%d events stored, want 3 (%v)", len(events), err)
	}
}

func testAcceptOnceExpires(t *testing.T, b *bench) {
	sub := func(id, body string) pipeline.Submission {
		return pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event(id)}, Once: once("key", body, respondIDs)}
	}
	b.Submit(t, sub("evt_1", "a"))
	b.Clock.Advance(24*time.Hour - time.Millisecond)
	if r := b.Submit(t, sub("evt_2", "a")); r.Replay == nil {
		t.Error("forgotten before 24 hours")
	}
	b.Clock.Advance(time.Millisecond)
	if r := b.Submit(t, sub("evt_3", "b")); r.Replay != nil || r.Err != nil {
		t.Errorf("remembered after 24 hours: %+v", r)
	}
	if r := b.Submit(t, sub("evt_4", "b")); r.Replay == nil || string(r.Replay.Body) != "evt_3 false;" {
		t.Errorf("the second use after 24 hours: %+v", r)
	}
}

func testAcceptLater(t *testing.T, b *bench) {
	b.Clock.Advance(40 * 24 * time.Hour)
	b.Accepted(t, "evt_1")
	b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event("evt_2")}, Once: once("k", "", respondIDs)})
	b.Clock.Advance(24 * time.Hour)
	e := b.Accepted(t, "evt_3")
	b.Recorded(t, b.Outcome(e, b.Webhook(t), domain.StatusDelivered))
}

func testAcceptAtomic(t *testing.T, b *bench) {
	bad := pipelinetest.Event("evt_2")
	bad.Payload = nil // refused by the column
	_, err := b.Accept(t.Context(), []pipeline.Submission{
		{Account: account, Events: []domain.Event{pipelinetest.Event("evt_1")}},
		{Account: account, Events: []domain.Event{bad}},
	})
	if err == nil {
		t.Fatal("an event without a payload was accepted")
	}
	if _, err := b.GetEvent(t.Context(), account, "evt_1"); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("a part of the failed commit is stored: %v", err)
	}
	b.Accepted(t, "evt_1")
}

func testAcceptEmpty(t *testing.T, b *bench) {
	receipts, err := b.Accept(t.Context(), []pipeline.Submission{{Account: account}})
	if err != nil || len(receipts) != 1 || len(receipts[0].Events) != 0 {
		t.Errorf("%+v, %v", receipts, err)
	}
	receipts, err = b.Accept(t.Context(), nil)
	if err != nil || len(receipts) != 0 {
		t.Errorf("%+v, %v", receipts, err)
	}
}

func testAcceptOutbox(t *testing.T, b *bench) {
	e := b.Accepted(t, "evt_1")
	page, _, err := b.Unsettled(t.Context(), noon.Add(time.Second), pipeline.OutboxCursor{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(page) != 1 {
		t.Fatalf("%d unsettled events, want 1", len(page))
	}
	if diff := cmp.Diff(e, page[0].Event); diff != "" {
		t.Errorf("unsettled event (-accepted +read):\n%s", diff)
	}
}

// testVersionOrder: whoever reads version v has seen every change up to v.
func testVersionOrder(t *testing.T, b *bench) {
	const writers, each = 4, 10
	done := make(chan struct{})
	var readers, wg sync.WaitGroup
	for range 2 {
		readers.Go(func() { b.follow(t, done) })
	}
	for range writers {
		wg.Go(func() {
			for range each {
				w := domain.Webhook{Account: account, URL: "https://x.example", Active: true, Secret: domain.NewSecret()}
				created, _, err := b.CreateWebhook(t.Context(), w, nil)
				if err != nil {
					t.Errorf("create webhook: %v", err)
					return
				}
				version, err := b.ConfigVersion(t.Context())
				if err != nil || version < created.Version {
					t.Errorf("version %d after version %d was answered, %v", version, created.Version, err)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	readers.Wait()
}

// follow reads what changed, as a dispatcher does, while webhooks are made, and counts
// them against the version.
func (b *bench) follow(t *testing.T, done <-chan struct{}) {
	t.Helper()
	known := map[domain.WebhookID]int64{}
	since := int64(0)
	for {
		webhooks, version, err := b.Webhooks(t.Context(), since)
		if err != nil {
			t.Errorf("webhooks: %v", err)
			return
		}
		for _, w := range webhooks {
			known[w.ID] = w.Version
		}
		// The first version is that of the empty configuration.
		if int64(len(known)) != version-1 {
			t.Errorf("%d webhooks known at version %d", len(known), version)
			return
		}
		since = version
		select {
		case <-done:
			return
		default:
		}
	}
}
