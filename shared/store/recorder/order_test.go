package recorder_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/recorder"
)

// numbered records a number for each of n webhooks, and one that did not arrive. It returns the keys and
// their numbers.
func numbered(t *testing.T, b *bench, n int) (keys []recorder.SequenceKey, want map[recorder.SequenceKey]recorder.Numbers) {
	t.Helper()
	want = make(map[recorder.SequenceKey]recorder.Numbers)
	var batch domain.RecordBatch
	for i := range n {
		e := pipelinetest.Event(fmt.Sprintf("evt_%d", b.Next()))
		w := domain.Webhook{ID: domain.WebhookID(fmt.Sprintf("wh_%d", i)), Account: account, Version: 1}
		missed, last := b.Outcome(e, w, domain.StatusFailed), b.Outcome(pipelinetest.Event(fmt.Sprintf("evt_%d", b.Next())), w, domain.StatusDelivered)
		missed.Sequence, missed.Shipment = int64(i+1), int64(i%3)
		last.Sequence, last.Shipment = int64(i+2), int64(i%3)
		batch.Outcomes = append(batch.Outcomes, missed, last)
		key := recorder.SequenceKey{Webhook: w.ID, Shipment: int64(i % 3)}
		keys, want[key] = append(keys, key), recorder.Numbers{Last: int64(i + 2), Missed: int64(i + 1)}
	}
	b.RecordedBatch(t, batch)
	return keys, want
}

func testSequencesOfMany(t *testing.T, b *bench) {
	keys, want := numbered(t, b, 1100)
	asked := keys
	for _, k := range keys { // have none: another webhook has the shipment's number
		asked = append(asked, recorder.SequenceKey{Webhook: k.Webhook, Shipment: k.Shipment + 1})
	}
	got, err := b.Sequences(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	if got, err := b.Sequences(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("of no webhook: %v, %v", got, err)
	}
}

// testStartOnAnotherStream: where an order starts holds for its stream, and a later stream is the order's as a whole.
func testStartOnAnotherStream(t *testing.T, b *bench) {
	start := recorder.OrderStart{Account: account, Created: noon, From: 7}
	another := recorder.OrderStart{Account: account, Created: noon.Add(time.Hour), From: 9}
	whole := another
	whole.From = 1
	for _, step := range []struct{ given, want recorder.OrderStart }{{start, start}, {another, whole}, {another, whole}} {
		if got, err := b.StartOrder(t.Context(), step.given); err != nil || got != step.want {
			t.Errorf("given %+v it starts at %+v, %v; want %+v", step.given, got, err, step.want)
		}
	}
}

// testStartKnown has a new owner of an order ask where it starts while the row is being written.
func testStartKnown(t *testing.T, b *bench) {
	start := recorder.OrderStart{Account: account, Created: noon, From: 7}
	later := start
	later.From = 9
	if got, err := b.StartOrder(t.Context(), start); err != nil || got != start {
		t.Fatalf("noted %+v, %v", got, err)
	}
	writing, _ := b.DB.Handles()
	tx, err := writing.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "UPDATE ordering_starts SET from_sequence = from_sequence"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if got, err := b.StartOrder(ctx, later); err != nil || got != start {
		t.Errorf("it starts at %+v, %v; want %+v", got, err, start)
	}
}

// The numbers of many webhooks take hardly more round trips than those of one.
func TestSequencesOfManyAtOnce(t *testing.T) {
	t.Parallel()
	var turns atomic.Int64
	b := countedBench(t, &turns)
	keys, _ := numbered(t, b, 200)
	read := func(keys []recorder.SequenceKey) int64 {
		t.Helper()
		before := turns.Load()
		got, err := b.Sequences(t.Context(), keys)
		if err != nil || len(got) != len(keys) {
			t.Fatalf("%d numbers, %v; want %d", len(got), err, len(keys))
		}
		return turns.Load() - before
	}
	if one, many := read(keys[:1]), read(keys); many > one+10 {
		t.Errorf("200 webhooks took %d round trips, one of them %d", many, one)
	}
}
