package domain_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/domain"
)

func TestSecretIsNeverShown(t *testing.T) {
	t.Parallel()
	const text = "whsec_s3cr3t"
	s := domain.Secret(text)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s, "in", struct{ S domain.Secret }{s})
	body, err := json.Marshal(map[string]any{"s": s, "h": domain.Header{Name: "X", Value: s}})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{
		s.String(), s.GoString(), log.String(), string(body),
		fmt.Sprintf("%s %v %+v %#v %q %x %d", s, s, s, s, s, s, s), fmt.Sprintf("%+v", domain.Webhook{Secret: s, PreviousSecret: s}),
	} {
		if strings.Contains(shown, "s3cr3t") || strings.Contains(shown, fmt.Sprintf("%x", text)) {
			t.Errorf("shown: %s", shown)
		}
	}
	if s.Reveal() != text {
		t.Error("Reveal does not reveal it")
	}
}

func TestDeliveryIDsSortByTimeAndTellIt(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	var times []time.Time
	for range 1000 {
		times = append(times, start.Add(time.Duration(random.Int64N(int64(1000*time.Hour)))).Truncate(time.Millisecond))
	}
	slices.SortFunc(times, time.Time.Compare)
	last := ""
	for i, at := range times {
		key := domain.EventKey{Account: "default", ID: fmt.Sprintf("evt_%d", random.Int()), ReceivedAt: at}
		id := domain.NewDeliveryID(key, "0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001")
		if len(id) != 22 || id != domain.NewDeliveryID(key, "0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001") {
			t.Fatalf("id %q is not the same twice, or not 22 characters", id)
		}
		if got, ok := id.ReceivedAt(); !ok || !got.Equal(at) {
			t.Fatalf("id of %s tells %s", at, got)
		}
		if string(id) < last && (i == 0 || !times[i-1].Equal(at)) {
			t.Fatalf("id %s of a later event sorts before %s", id, last)
		}
		if id < domain.DeliveryIDFloor(at) || id >= domain.DeliveryIDFloor(at.Add(time.Millisecond)) {
			t.Fatalf("id %s is not within its millisecond", id)
		}
		last = string(id)
	}
	for _, bad := range []domain.DeliveryID{"", "x", "zzzzzzzzzzzzzzzzzzzzzz", "0351VPCAiYT3ki3U6lbln-", "0351VPCAiYT3ki3U6lblno0"} {
		if _, ok := bad.ReceivedAt(); ok {
			t.Errorf("%q counts as a delivery id", bad)
		}
	}
}

func TestWebhookTokenIsTheWebhook(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	shards := map[int]int{}
	for range 5000 {
		text := fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", random.Uint32(), random.Uint32()&0xffff, random.Uint32()&0xffff, random.Uint32()&0xffff, random.Uint64()&0xffffffffffff)
		id, err := domain.ParseWebhookID(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if back, ok := domain.WebhookFromToken(id.Token()); !ok || back != id || len(id.Token()) != 22 {
			t.Fatalf("%s becomes %s and then %s", id, id.Token(), back)
		}
		shards[id.Shard()]++
	}
	for shard := range domain.Shards {
		if n := shards[shard]; n < 200 || n > 450 {
			t.Errorf("shard %d has %d of 5000 webhooks", shard, n)
		}
	}
	for _, bad := range []string{"", "0198AAAA-bbbb-7ccc-8ddd-eeeeffff0001", "0198aaaabbbb7ccc8dddeeeeffff0001", "0198aaaa-bbbb-7ccc-8ddd-eeeeffff000g", "0198aaaa-bbbb-7ccc-8ddd-eeeeffff00-1"} {
		if _, err := domain.ParseWebhookID(bad); err == nil {
			t.Errorf("%q counts as a webhook id", bad)
		}
	}
}

func TestEventIDs(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "evt_1-2", strings.Repeat("Z", 64)} {
		if !domain.ValidEventID(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{"", "a.b", "a b", "ä", strings.Repeat("Z", 65), "a\n"} {
		if domain.ValidEventID(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestInactive(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		webhook domain.Webhook
		health  domain.Health
		reason  domain.DisabledReason
	}{
		"active":                             {domain.Webhook{Active: true, ActivatedVersion: 3}, domain.Health{}, ""},
		"set inactive by its owner":          {domain.Webhook{ActivatedVersion: 3}, domain.Health{}, domain.DisabledManual},
		"disabled since it was activated":    {domain.Webhook{Active: true, ActivatedVersion: 3}, domain.Health{DisabledVersion: 3, DisabledReason: domain.DisabledGone}, domain.DisabledGone},
		"disabled before it was activated":   {domain.Webhook{Active: true, ActivatedVersion: 3}, domain.Health{DisabledVersion: 2, DisabledReason: domain.DisabledGone}, ""},
		"both, its owner's word comes first": {domain.Webhook{ActivatedVersion: 3}, domain.Health{DisabledVersion: 5, DisabledReason: domain.DisabledFailing}, domain.DisabledManual},
	} {
		reason, inactive := row.webhook.Inactive(row.health)
		if reason != row.reason || inactive != (row.reason != "") {
			t.Errorf("%s: %q, %t", name, reason, inactive)
		}
	}
}

func TestRandomTextIsFair(t *testing.T) {
	t.Parallel()
	const each, alphabet = 2000, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	text := domain.RandomText(each * len(alphabet))
	if len(text) != each*len(alphabet) || strings.Trim(text, alphabet) != "" {
		t.Fatalf("%d characters, and without those of base62 %q is left", len(text), strings.Trim(text, alphabet))
	}
	for _, c := range alphabet {
		if n := strings.Count(text, string(c)); n < each*85/100 || n > each*115/100 { // more than six standard deviations
			t.Errorf("%q comes %d times, want about %d", c, n, each)
		}
	}
}
