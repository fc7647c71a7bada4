package pipeline_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/recorder"
)

func inOrder(w *domain.Webhook) { w.Ordering = domain.OrderingShipment }

// placesOf returns the places of the events of a commit, in the order of its submissions.
func placesOf(receipts []pipeline.Receipt) (places []int64) {
	for _, r := range receipts {
		for _, e := range r.Events {
			places = append(places, e.Place)
		}
	}
	return places
}

func submission(account string, ids ...string) pipeline.Submission {
	s := pipeline.Submission{Account: account}
	for _, id := range ids {
		e := pipelinetest.Event(id)
		e.Account = account
		s.Events = append(s.Events, e)
	}
	return s
}

func testPlaces(t *testing.T, b *bench) {
	accept := func(subs ...pipeline.Submission) []int64 {
		t.Helper()
		receipts, err := b.Accept(t.Context(), subs)
		if err != nil {
			t.Fatal(err)
		}
		return placesOf(receipts)
	}
	check := func(what string, want, got []int64) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("places %s (-want +got):\n%s", what, diff)
		}
	}
	w := b.Webhook(t)
	check("without ordering", []int64{0, 0}, accept(submission(account, "evt_a", "evt_b")))
	if _, _, err := b.UpdateWebhook(t.Context(), account, w.ID, func(w *domain.Webhook) error { inOrder(w); return nil }); err != nil {
		t.Fatal(err)
	}
	// Neither the order of ids nor repeats count, nor what other accounts do.
	check("of one commit", []int64{0, 1, 2, 0, 0, 3, 0, 4},
		accept(submission(account, "evt_a", "evt_z", "evt_y", "evt_z"), submission("other", "evt_1"), submission(account, "evt_c", "evt_b", "evt_d")))
	check("with a key", []int64{5, 6}, accept(func() pipeline.Submission {
		s := submission(account, "evt_x", "evt_f")
		s.Once = once("key", "body", respondIDs)
		return s
	}()))
	if _, _, err := b.UpdateWebhook(t.Context(), account, w.ID, func(w *domain.Webhook) error { w.Ordering = domain.OrderingNone; return nil }); err != nil {
		t.Fatal(err)
	}
	check("when no webhook has ordering any more", []int64{7}, accept(submission(account, "evt_last")))

	var queued []string
	page, _, err := b.Unsettled(t.Context(), noon.Add(time.Hour), pipeline.OutboxCursor{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page {
		queued = append(queued, fmt.Sprintf("%s/%s %d", e.Event.Account, e.Event.ID, e.Place))
	}
	slices.Sort(queued)
	want := []string{"default/evt_a 0", "default/evt_b 0", "default/evt_c 3", "default/evt_d 4", "default/evt_f 6", "default/evt_last 7", "default/evt_x 5", "default/evt_y 2", "default/evt_z 1", "other/evt_1 0"}
	if diff := cmp.Diff(want, queued); diff != "" {
		t.Errorf("places in the outbox (-want +got):\n%s", diff)
	}
	missed, err := b.UnsettledPlaces(t.Context(), account, 2, 5, noon, 3)
	if err != nil || len(missed) != 3 || missed[0].Event.ID != "evt_y" || missed[2].Place != 4 {
		t.Errorf("places 2 to 5, three of them: %+v, %v", missed, err)
	}
	if err := b.MarkRelayed(t.Context(), []domain.EventKey{missed[0].Event.Key()}, noon); err != nil {
		t.Fatal(err)
	}
	if missed, err := b.UnsettledPlaces(t.Context(), account, 2, 3, noon, 3); err != nil || len(missed) != 1 || missed[0].Place != 3 {
		t.Errorf("places 2 and 3 after the first was relayed: %+v, %v", missed, err)
	}
	if missed, err := b.UnsettledPlaces(t.Context(), "other", 0, 100, noon, 10); err != nil || len(missed) != 0 {
		t.Errorf("places of another account: %+v, %v", missed, err)
	}
}

// testPlacesConcurrent has committers with accounts in common: each place is there once, none
// is left out by what fails, and one caller's events have rising places.
func testPlacesConcurrent(t *testing.T, b *bench) {
	accounts := []string{"one", "two", "three"}
	for _, name := range accounts {
		b.Webhook(t, func(w *domain.Webhook) { w.Account, w.Ordering = name, domain.OrderingShipment })
	}
	const callers, rounds = 6, 8
	var mu sync.Mutex
	got := map[string][]int64{}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			last := map[string]int64{}
			for round := range rounds {
				var subs []pipeline.Submission
				for i := range accounts {
					name := accounts[(i+c)%len(accounts)]
					subs = append(subs, submission(name, fmt.Sprintf("evt_%d_%d_b", c, round), fmt.Sprintf("evt_%d_%d_a", c, round), "evt_shared_"+strconv.Itoa(round)))
				}
				receipts, err := b.Accept(t.Context(), subs)
				if err != nil {
					t.Errorf("accept: %v", err)
					return
				}
				mu.Lock()
				for i, r := range receipts {
					for _, e := range r.Events {
						if e.Duplicate {
							continue
						}
						name := subs[i].Account
						if e.Place <= last[name] {
							t.Errorf("%s has place %d after %d", e.ID, e.Place, last[name])
						}
						last[name] = e.Place
						got[name] = append(got[name], e.Place)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, name := range accounts {
		slices.Sort(got[name])
		for i, place := range got[name] {
			if place != int64(i+1) {
				t.Fatalf("places of %s: %v", name, got[name])
			}
		}
		if want := rounds * (2*callers + 1); len(got[name]) != want {
			t.Errorf("%d places of %s, want %d", len(got[name]), name, want)
		}
	}
}

// testPlacesOfAnother has a second process, which learns from its first commit after the change
// that the account has ordering: what it has committed then has places when it is answered, too, in the order in which
// it was submitted.
func testPlacesOfAnother(t *testing.T, b *bench) {
	other := pipeline.New(b.DB)
	accept := func(p *pipeline.Pipeline, subs ...pipeline.Submission) []int64 {
		t.Helper()
		receipts, err := p.Accept(t.Context(), subs)
		if err != nil {
			t.Fatal(err)
		}
		return placesOf(receipts)
	}
	accept(other, submission(account, "evt_0"))
	b.Webhook(t, inOrder)
	var got []int64
	for _, step := range []struct {
		by   *pipeline.Pipeline
		subs []pipeline.Submission
	}{
		{b.Pipeline, []pipeline.Submission{submission(account, "evt_1")}},
		{other, []pipeline.Submission{submission(account, "evt_3", "evt_0", "evt_2", "evt_3"), submission("other", "evt_1"), submission(account, "evt_4")}},
		{other, []pipeline.Submission{submission(account, "evt_5")}},
		{b.Pipeline, []pipeline.Submission{submission(account, "evt_6")}},
		{pipeline.New(b.DB), []pipeline.Submission{submission(account, "evt_7")}},
	} {
		got = append(got, accept(step.by, step.subs...)...)
	}
	if diff := cmp.Diff([]int64{1, 2, 0, 3, 0, 0, 4, 5, 6, 7}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	placed, err := b.UnsettledPlaces(t.Context(), account, 1, 7, noon.Add(time.Hour), 10)
	if err != nil {
		t.Fatal(err)
	}
	var queued []string
	for _, e := range placed {
		queued = append(queued, e.Event.ID)
	}
	if diff := cmp.Diff([]string{"evt_1", "evt_3", "evt_2", "evt_4", "evt_5", "evt_6", "evt_7"}, queued); diff != "" {
		t.Errorf("in the outbox by place (-want +got):\n%s", diff)
	}
}

// testRestorableInOrder has deliveries wait in the order of their shipment, with the number that
// they have there, until somebody asks for them: what was asked for passes the order by.
func testRestorableInOrder(t *testing.T, b *bench) {
	w := b.Webhook(t, inOrder)
	shipment := domain.ShipmentKey(account, "SH-1")
	add := func(sequence int64, status domain.Status, reason string) domain.Outcome {
		o := b.Outcome(b.Accepted(t, fmt.Sprintf("evt_%d", b.Next())), w, status)
		o.Sequence, o.Shipment, o.Reason = sequence, shipment, reason
		b.Recorded(t, o)
		b.Clock.Advance(time.Minute)
		return o
	}
	var want []string
	for i, status := range []domain.Status{domain.StatusDelivered, domain.StatusRetrying, domain.StatusHeld} {
		o := add(int64(i+1), status, "")
		if status != domain.StatusDelivered {
			want = append(want, fmt.Sprintf("%s %d %v", o.Delivery, i+1, true))
		}
	}
	o := add(4, domain.StatusPending, domain.ReasonBehindShipment)
	want = append(want, fmt.Sprintf("%s 4 true", o.Delivery))
	again := add(5, domain.StatusRetrying, "")
	again.Rev, again.Attempts, again.Attempt = domain.RunStep+domain.FirstOutcome, 2, nil
	b.Recorded(t, again)
	want = append(want, fmt.Sprintf("%s 0 false", again.Delivery))
	items, _, err := b.Restorable(t.Context(), time.Time{}, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		got = append(got, fmt.Sprintf("%s %d %v", item.Task.Delivery, item.Task.Sequence, item.Ordered))
		if item.Ordered && item.Task.Shipment != shipment {
			t.Errorf("%s is of shipment %d, want %d", item.Task.Delivery, item.Task.Shipment, shipment)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
}

func testMaintainSequences(t *testing.T, b *bench) {
	w := b.Webhook(t, inOrder)
	keys := []recorder.SequenceKey{}
	add := func(shipment int64) {
		o := b.Outcome(b.Accepted(t, fmt.Sprintf("evt_%d", b.Next())), w, domain.StatusDelivered)
		o.Sequence, o.Shipment = 7, shipment
		b.Recorded(t, o)
		keys = append(keys, recorder.SequenceKey{Webhook: w.ID, Shipment: shipment})
	}
	start := b.Clock.Now()
	add(1)
	b.Clock.Advance(24 * time.Hour)
	add(2)
	b.maintainedSequences(t, start.Add(90*24*time.Hour-time.Minute), keys, 2)
	b.maintainedSequences(t, start.Add(90*24*time.Hour+time.Minute), keys, 1)
}

func (b *bench) maintainedSequences(t *testing.T, at time.Time, keys []recorder.SequenceKey, want int) {
	t.Helper()
	if _, err := b.Maintain(t.Context(), at, 200*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	got, err := b.Sequences(t.Context(), keys)
	if err != nil || len(got) != want || got[keys[1]].Last != 7 {
		t.Errorf("numbers %s after the first: %v, %v; want %d", at.Sub(b.Clock.Now()), got, err, want)
	}
}
