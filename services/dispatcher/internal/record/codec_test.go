package record_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/domain"
)

const webhook = domain.WebhookID("0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001")

// kept is as long as the transcript of an ordinary attempt.
var kept = bytes.Repeat([]byte{1, 0xff}, 125)

func batch(n int) *domain.RecordBatch {
	now := time.UnixMilli(1_770_000_000_123).UTC()
	b := &domain.RecordBatch{}
	for i := range n {
		key := domain.EventKey{Account: "default", ID: fmt.Sprintf("evt_01980f2c7a607c3e9d5a4f1b2c3d%04x", i), ReceivedAt: now}
		b.Settled = append(b.Settled, key)
		b.Outcomes = append(b.Outcomes, domain.Outcome{
			Delivery: domain.NewDeliveryID(key, webhook), Account: "default", Webhook: webhook, EventID: key.ID,
			EventType: domain.ShipmentDelivered, EventSeq: uint64(i), Status: domain.StatusDelivered, Rev: 2, Attempts: 1,
			RunAttempts: 1, RunStartedAt: now, UpdatedAt: now,
			Attempt: &domain.Attempt{ID: domain.AttemptID(), Number: 1, StartedAt: now, Duration: time.Millisecond, Status: 200, Class: domain.ClassOK, ResponseBody: `{"ok":true}`, Transcript: kept},
		})
	}
	return b
}

// whole has every field of every part.
func whole() *domain.RecordBatch {
	at := time.Date(2026, 11, 16, 13, 4, 11, 123_456_789, time.UTC)
	b := batch(2)
	b.Outcomes = append(b.Outcomes, domain.Outcome{
		Delivery: "dlv_1", Account: "acme", Webhook: webhook, EventID: "Straße/日本 ", EventType: domain.ShipmentException, EventSeq: 1 << 63,
		Status: domain.StatusRetrying, Rev: 2004, Attempts: 7, RunAttempts: 2, RunStartedAt: at, NextAttemptAt: at.Add(time.Hour), InLane: true,
		Reason: domain.ReasonCircuitOpen, UpdatedAt: at, Test: true, Noted: true, Request: "req_1",
		Sequence: 1 << 40, Shipment: -1 << 60,
		Attempt: &domain.Attempt{ID: "att_1", Number: 7, StartedAt: at, Duration: 1234567 * time.Nanosecond, Status: 502, Class: domain.Class5xx, Error: "timeout", ResponseBody: strings.Repeat("\u00e9\n", 2048), Transcript: kept},
	}, domain.Outcome{})
	b.Events = []domain.Event{{Account: "acme", ID: "evt", Type: domain.ShipmentCreated, Timestamp: "2026-11-16T13:04:11+01:00", Payload: []byte(`{"n":0.1000}`), ReceivedAt: at}, {Payload: []byte{}}}
	b.Health = []domain.HealthChange{
		{Webhook: webhook, FailingSince: at, DisabledVersion: 9, DisabledReason: domain.DisabledGone, At: at, Circuit: &domain.Circuit{Alarming: true,
			OpenSince: at, Failures: 21, FailingSince: at.Add(-time.Minute), NextProbeAt: at.Add(time.Second), SaidAt: at,
			Last: &domain.Answer{At: at, Status: 503, Class: domain.Class5xx, Body: "busy"},
		}},
		{Webhook: webhook, Circuit: &domain.Circuit{SaidAt: at}, At: at}, {Webhook: webhook, Recovered: true}, {},
		{Webhook: webhook, At: at, Certificate: &domain.Certificate{ExpiresAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), Version: 1 << 40}},
		{Webhook: webhook, Certificate: &domain.Certificate{}},
	}
	return b
}

func TestRecordsComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]*domain.RecordBatch{"whole": whole(), "nothing": {}, "many": batch(500)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := record.Parse(record.Encode(in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*in, out); diff != "" {
				t.Errorf("a batch came out changed (-in +out):\n%s", diff)
			}
		})
	}
}

func TestEveryFieldIsCarried(t *testing.T) {
	t.Parallel()
	b := whole()
	for _, of := range []any{b.Outcomes[2], *b.Outcomes[2].Attempt, b.Events[0], b.Settled[0], *b.Health[0].Circuit, *b.Health[0].Circuit.Last} {
		value := reflect.ValueOf(of)
		for i := range value.NumField() {
			if name := value.Type().Field(i).Name; value.Field(i).IsZero() {
				t.Errorf("%s.%s is not tried: it is zero in the batch of these tests", value.Type(), name)
			}
		}
	}
	if fields := reflect.TypeFor[domain.HealthChange]().NumField(); fields != 9 {
		t.Errorf("a health change has %d fields now; have each tried here", fields)
	}
}

// firstVersion is a batch that the build before the second version wrote: a delivery, a
// failure with a status, an outcome without anything, and a failure without an answer.
const firstVersion = `010408163033324b6c4e506e316550376744636f4954775853640764656661756c742430313938616161612d626262622d376363632d386464642d65
6565656666666630303031246576745f303139383066326337613630376333653964356134663162326333643030303112736869706d656e742e6465
6c6976657265640964656c697665726564000001040202c0d4c54b9f4d90180000000000000000c0d4c54b9f4d9018056174745f30000b7b226f6b22
3a747275657d0280897a9003c0d4c54b9f4d90180f05646c765f310461636d652430313938616161612d626262622d376363632d386464642d656565
6566666666303030310f53747261c39f652fe697a5e69cac2012736869706d656e742e657863657074696f6e087265747279696e670b636972637569
744f70656e057265715f3180808080808080808001a81f0e0415fbeaf03d88e818159ba321848be81815fbeaf03d88e818056174745f310774696d65
6f7574026e6f0e8eda9601ec0715fbeaf03d88e818000000000000000000000000000000000000000000000000000000000000000000000000000f05
646c765f310461636d652430313938616161612d626262622d376363632d386464642d6565656566666666303030310f53747261c39f652fe697a5e6
9cac2012736869706d656e742e657863657074696f6e087265747279696e670b636972637569744f70656e057265715f3180808080808080808001a8
1f0e0415fbeaf03d88e818159ba321848be81815fbeaf03d88e818056174745f310774696d656f7574026e6f0e8eda96010015fbeaf03d88e8180204
61636d650365767410736869706d656e742e6372656174656419323032362d31312d31365431333a30343a31312b30313a30300c7b226e223a302e31
3030307d15fbeaf03d88e81800000000000000000000000000020764656661756c74246576745f303139383066326337613630376333653964356134
6631623263336430303030c0d4c54b9f4d90180764656661756c74246576745f30313938306632633761363037633365396435613466316232633364
30303031c0d4c54b9f4d901803002430313938616161612d626262622d376363632d386464642d65656565666666663030303104676f6e651215fbea
f03d88e81815fbeaf03d88e818102430313938616161612d626262622d376363632d386464642d656565656666666630303031000000000000000000
0000000000000000000000000000000000000000000000000000000000`

func TestTheVersionBeforeIsRead(t *testing.T) {
	t.Parallel()
	body, err := hex.DecodeString(strings.ReplaceAll(firstVersion, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	got, err := record.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	want := whole()
	want.Outcomes = want.Outcomes[1:]
	for i := range want.Outcomes {
		want.Outcomes[i].Sequence, want.Outcomes[i].Shipment = 0, 0
	}
	want.Outcomes[0].Attempt.ID = "att_0"
	want.Outcomes[1].Attempt.ResponseBody = "no"
	unanswered := *want.Outcomes[1].Attempt
	unanswered.Status, unanswered.Class = 0, ""
	for _, i := range []int{0, 1} {
		want.Outcomes[i].Attempt.Transcript = nil
	}
	unanswered.Transcript = nil
	want.Outcomes = append(want.Outcomes, want.Outcomes[1])
	want.Outcomes[3].Attempt = &unanswered
	want.Health = slices.Delete(want.Health[:4], 1, 2)
	want.Health[0].Circuit = nil
	if diff := cmp.Diff(*want, got); diff != "" {
		t.Errorf("a batch of the first version (-want +got):\n%s", diff)
	}
}

func TestWhatIsNoBatchIsRefused(t *testing.T) {
	t.Parallel()
	good := record.Encode(whole())
	bad := map[string][]byte{"empty": {}, "JSON": []byte(`{"Outcomes":[]}`), "other version": append([]byte{4}, good[1:]...), "more than a batch": append(slices.Clone(good), 0),
		"a length that promises too much": {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}}
	const shipment = -1 << 60
	ordered := record.Encode(&domain.RecordBatch{Outcomes: []domain.Outcome{{Sequence: 1, Shipment: shipment}}})
	at := bytes.Index(ordered, binary.AppendVarint(binary.AppendVarint(nil, 1), shipment))
	if _, err := record.Parse(ordered); err != nil || at < 0 {
		t.Fatalf("the first of an order: %v, at %d", err, at)
	}
	ordered[at] = 1 // -1
	bad["a place before the first"] = ordered
	for name, body := range bad {
		if _, err := record.Parse(body); err == nil {
			t.Errorf("%s was read as a batch", name)
		}
	}
	for n := range good {
		if _, err := record.Parse(good[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were read as a batch", n, len(good))
		}
	}
}

func FuzzParseRecords(f *testing.F) {
	f.Add(record.Encode(whole()))
	f.Add(record.Encode(&domain.RecordBatch{}))
	f.Fuzz(func(t *testing.T, body []byte) {
		batch, err := record.Parse(body)
		if err != nil {
			return
		}
		again, err := record.Parse(record.Encode(&batch))
		if err != nil {
			t.Fatalf("what was read can't be read again: %v", err)
		}
		if diff := cmp.Diff(batch, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("what was read and written again differs:\n%s", diff)
		}
	})
}

// BenchmarkRecords measures one outcome on its way through the bus's encoding.
func BenchmarkRecords(b *testing.B) {
	const n = 100
	encoded := record.Encode(batch(n))
	b.Run("encode", func(b *testing.B) {
		in := batch(n)
		b.ReportAllocs()
		for range b.N {
			encoded = record.Encode(in)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/outcome")
		b.ReportMetric(float64(len(encoded))/n, "bytes/outcome")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := record.Parse(encoded); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/outcome")
	})
}
