package pipeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/storetest"
)

func webhookTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"filters of an account are bounded": testFilterBytes,
		"keeps every field":                 testWebhookFields,
		"lists oldest first in pages":       testWebhookList,
		"keeps accounts apart":              testWebhookAccounts,
		"answers a key once":                testWebhookOnce,
		"answers a key once concurrently":   testWebhookOnceConcurrent,
		"updates under a new version":       testWebhookUpdate,
		"a failed change stores nothing":    testWebhookUpdateError,
		"activation by the owner":           testWebhookActivation,
		"activation after a disablement":    testWebhookReactivation,
		"loses no concurrent update":        testWebhookConcurrentUpdates,
		"leaves a tombstone":                testWebhookDelete,
		"reads what changed since":          testWebhooksSince,
		"finds live ones":                   testLiveWebhooks,
		"keeps health in order":             testHealth,
		"reads health since":                testHealthSince,
		"keeps secrets out of what prints":  testWebhookSecrets,
	}
}

func testWebhookFields(t *testing.T, b *bench) {
	rate := 2.5
	w := b.Webhook(t, func(w *domain.Webhook) {
		w.URL, w.Description = "https://receiver.example/path?token=x", "größer ☃"
		w.Events = []domain.EventType{domain.ShipmentDelivered, domain.ShipmentCreated}
		w.Headers = []domain.Header{{Name: "X-One", Value: "secret one"}, {Name: "Authorization", Value: "Bearer two"}}
		w.RetrySchedule = []time.Duration{50 * time.Millisecond, time.Hour}
		w.Timeout, w.MaxInFlight, w.RatePerSecond = 1500*time.Millisecond, 7, &rate
		w.PreviousSecret, w.PreviousSecretExpiresAt = domain.NewSecret(), noon.Add(time.Hour)
	})
	if _, err := domain.ParseWebhookID(string(w.ID)); err != nil {
		t.Errorf("id %q is not a UUID", w.ID)
	}
	if w.Version < 2 || w.ActivatedVersion != w.Version || !w.ActivatedAt.Equal(noon) || !w.CreatedAt.Equal(noon) {
		t.Errorf("stamps: %+v", w)
	}
	got, health, err := b.GetWebhook(t.Context(), account, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, got, storetest.Secrets()); diff != "" {
		t.Errorf("read webhook (-created +read):\n%s", diff)
	}
	if diff := cmp.Diff(domain.Health{Webhook: w.ID}, health); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	noRetry := b.Webhook(t, func(w *domain.Webhook) { w.RetrySchedule = []time.Duration{} })
	if got, _, err := b.GetWebhook(t.Context(), account, noRetry.ID); err != nil || got.RetrySchedule == nil {
		t.Errorf("an empty schedule came back as %v, %v", got.RetrySchedule, err)
	}
}

func testWebhookSecrets(t *testing.T, b *bench) {
	w := b.Webhook(t, func(w *domain.Webhook) { w.Headers = []domain.Header{{Name: "X", Value: "hush"}} })
	got, _, err := b.GetWebhook(t.Context(), account, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v %#v", got, got.Headers); strings.Contains(text, w.Secret.Reveal()) || strings.Contains(text, "hush") {
		t.Error("a secret prints")
	}
}

func testWebhookList(t *testing.T, b *bench) {
	var want []domain.WebhookID
	for range 5 {
		want = append(want, b.Webhook(t).ID)
		b.Clock.Advance(time.Millisecond)
	}
	deleted := b.Webhook(t)
	if err := b.DeleteWebhook(t.Context(), account, deleted.ID); err != nil {
		t.Fatal(err)
	}
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{Webhook: want[3], FailingSince: noon, At: noon}}})
	all, healths, total, err := b.ListWebhooks(t.Context(), account, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, webhookIDs(all)); diff != "" || total != 5 {
		t.Errorf("total %d, ids (-want +got):\n%s", total, diff)
	}
	for i, h := range healths {
		if h.Webhook != want[i] || h.FailingSince.IsZero() == (i == 3) {
			t.Errorf("health %d: %+v", i, h)
		}
	}
	page, _, total, err := b.ListWebhooks(t.Context(), account, 2, 3)
	if err != nil || total != 5 {
		t.Errorf("total %d, %v", total, err)
	}
	if diff := cmp.Diff(want[3:], webhookIDs(page)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if none, _, total, err := b.ListWebhooks(t.Context(), account, 2, 9); err != nil || len(none) != 0 || total != 5 {
		t.Errorf("beyond the end: %d of %d, %v", len(none), total, err)
	}
}

func webhookIDs(list []domain.Webhook) []domain.WebhookID {
	ids := make([]domain.WebhookID, len(list))
	for i, w := range list {
		ids[i] = w.ID
	}
	return ids
}

func testWebhookAccounts(t *testing.T, b *bench) {
	w := b.Webhook(t)
	_, _, err := b.GetWebhook(t.Context(), "other", w.ID)
	storetest.WantNotFound(t, "get", err)
	_, _, err = b.UpdateWebhook(t.Context(), "other", w.ID, func(*domain.Webhook) error { return nil })
	storetest.WantNotFound(t, "update", err)
	storetest.WantNotFound(t, "delete", b.DeleteWebhook(t.Context(), "other", w.ID))
	list, _, total, err := b.ListWebhooks(t.Context(), "other", 0, 0)
	if err != nil || total != 0 || len(list) != 0 {
		t.Errorf("list: %d of %d, %v", len(list), total, err)
	}
}

func webhookOnce(key, body string) *pipeline.WebhookOnce {
	var hash [32]byte
	copy(hash[:], body)
	return &pipeline.WebhookOnce{Path: "/v1/webhooks", Key: key, BodyHash: hash, Respond: func(w domain.Webhook) (int, []byte) {
		return 201, []byte(string(w.ID) + w.Secret.Reveal())
	}}
}

func testWebhookOnce(t *testing.T, b *bench) {
	create := func(key, body string) (domain.Webhook, *pipeline.StoredResponse, error) {
		w := domain.Webhook{Account: account, URL: "https://x.example", Active: true, Secret: domain.NewSecret()}
		return b.CreateWebhook(t.Context(), w, webhookOnce(key, body))
	}
	first, replay, err := create("k", "a")
	if err != nil || replay != nil {
		t.Fatalf("first: %v, %v", replay, err)
	}
	version, _ := b.ConfigVersion(t.Context())
	_, replay, err = create("k", "a")
	if err != nil || replay == nil || replay.Status != 201 || string(replay.Body) != string(first.ID)+first.Secret.Reveal() {
		t.Errorf("second: %v", err)
	}
	if _, _, err = create("k", "b"); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("another body: %v", err)
	}
	if again, _ := b.ConfigVersion(t.Context()); again != version {
		t.Errorf("a replay raised the version from %d to %d", version, again)
	}
	if _, _, total, _ := b.ListWebhooks(t.Context(), account, 0, 0); total != 1 {
		t.Errorf("%d webhooks", total)
	}
}

func testWebhookOnceConcurrent(t *testing.T, b *bench) {
	var mu sync.Mutex
	answers := map[string]int{}
	effects := 0
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			w := domain.Webhook{Account: account, URL: "https://x.example", Active: true, Secret: domain.NewSecret()}
			created, replay, err := b.CreateWebhook(t.Context(), w, webhookOnce("k", "a"))
			if err != nil {
				t.Errorf("create: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if replay != nil {
				answers[string(replay.Body)]++
				return
			}
			effects++
			answers[string(created.ID)+created.Secret.Reveal()]++
		})
	}
	wg.Wait()
	if effects != 1 || len(answers) != 1 {
		t.Errorf("%d effects, %d different answers", effects, len(answers))
	}
}

func testWebhookUpdate(t *testing.T, b *bench) {
	w := b.Webhook(t)
	b.Clock.Advance(time.Minute)
	updated, _, err := b.UpdateWebhook(t.Context(), account, w.ID, func(w *domain.Webhook) error {
		if !w.Active {
			t.Error("an active webhook shows as inactive")
		}
		w.URL, w.PreviousSecret, w.Secret = "https://new.example", w.Secret, domain.NewSecret()
		w.PreviousSecretExpiresAt = noon.Add(time.Hour)
		w.ID, w.Account, w.Version, w.Deleted = "nonsense", "other", 99, true // not the caller's to say
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := w
	want.URL, want.PreviousSecret, want.Secret = "https://new.example", w.Secret, updated.Secret
	want.PreviousSecretExpiresAt = noon.Add(time.Hour)
	want.UpdatedAt, want.Version, want.URLVersion = noon.Add(time.Minute), w.Version+1, w.Version+1
	if diff := cmp.Diff(want, updated, storetest.Secrets()); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	got, _, err := b.GetWebhook(t.Context(), account, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(updated, got, storetest.Secrets()); diff != "" {
		t.Errorf("read (-updated +read):\n%s", diff)
	}
}

func testWebhookUpdateError(t *testing.T, b *bench) {
	w := b.Webhook(t)
	reason := errors.New("not like this")
	_, _, err := b.UpdateWebhook(t.Context(), account, w.ID, func(w *domain.Webhook) error {
		w.URL = "https://other.example"
		return reason
	})
	if !errors.Is(err, reason) {
		t.Errorf("error %v, want the change's own", err)
	}
	got, _, err := b.GetWebhook(t.Context(), account, w.ID)
	if err != nil || got.URL != w.URL {
		t.Errorf("url %q, %v", got.URL, err)
	}
	if version, _ := b.ConfigVersion(t.Context()); version != w.Version {
		t.Errorf("version %d, want %d", version, w.Version)
	}
}

func (b *bench) setActive(t *testing.T, id domain.WebhookID, active bool) domain.Webhook {
	t.Helper()
	w, _, err := b.UpdateWebhook(t.Context(), account, id, func(w *domain.Webhook) error {
		w.Active = active
		return nil
	})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return w
}

func testWebhookActivation(t *testing.T, b *bench) {
	w := b.Webhook(t)
	b.Clock.Advance(time.Minute)
	same := b.setActive(t, w.ID, true)
	if same.ActivatedVersion != w.Version || !same.ActivatedAt.Equal(noon) {
		t.Errorf("setting an active webhook active: %+v", same)
	}
	off := b.setActive(t, w.ID, false)
	if off.Active || !off.DeactivatedAt.Equal(noon.Add(time.Minute)) || off.ActivatedVersion != w.Version {
		t.Errorf("deactivated: %+v", off)
	}
	b.Clock.Advance(time.Minute)
	if again := b.setActive(t, w.ID, false); !again.DeactivatedAt.Equal(off.DeactivatedAt) || again.Active {
		t.Errorf("deactivated again: %+v", again)
	}
	on := b.setActive(t, w.ID, true)
	if !on.Active || on.ActivatedVersion != on.Version || !on.ActivatedAt.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("activated: %+v", on)
	}
	born := b.Webhook(t, func(w *domain.Webhook) { w.Active = false })
	if born.ActivatedVersion != 0 || born.DeactivatedAt.IsZero() {
		t.Errorf("created inactive: %+v", born)
	}
}

func testWebhookReactivation(t *testing.T, b *bench) {
	w := b.Webhook(t)
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{
		Webhook: w.ID, DisabledVersion: w.Version, DisabledReason: domain.DisabledGone, At: noon,
	}}})
	inactive := func(want bool) domain.Webhook {
		t.Helper()
		w, h, err := b.GetWebhook(t.Context(), account, w.ID)
		if err != nil {
			t.Fatal(err)
		}
		if reason, got := w.Inactive(h); got != want || want && reason != domain.DisabledGone {
			t.Errorf("inactive %v (%s), want %v", got, reason, want)
		}
		return w
	}
	inactive(true)
	_, _, err := b.UpdateWebhook(t.Context(), account, w.ID, func(w *domain.Webhook) error {
		if w.Active {
			t.Error("a disabled webhook shows as active")
		}
		w.Description = "still disabled"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if w := inactive(true); !w.Active {
		t.Error("the owner's setting was changed by the way")
	}
	b.setActive(t, w.ID, true)
	on := inactive(false)
	// What a dispatcher says about the version before comes too late.
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{
		Webhook: w.ID, DisabledVersion: on.Version - 1, DisabledReason: domain.DisabledGone, At: noon.Add(time.Hour),
	}}})
	inactive(false)
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{
		Webhook: w.ID, DisabledVersion: on.Version, DisabledReason: domain.DisabledGone, At: noon.Add(time.Hour),
	}}})
	inactive(true)
}

func testWebhookConcurrentUpdates(t *testing.T, b *bench) {
	w := b.Webhook(t, func(w *domain.Webhook) { w.MaxInFlight = 0 })
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			_, _, err := b.UpdateWebhook(t.Context(), account, w.ID, func(w *domain.Webhook) error {
				w.MaxInFlight++
				return nil
			})
			if err != nil {
				t.Errorf("update: %v", err)
			}
		})
	}
	wg.Wait()
	got, _, err := b.GetWebhook(t.Context(), account, w.ID)
	if err != nil || got.MaxInFlight != 10 || got.Version != w.Version+10 {
		t.Errorf("%d updates, version %d after %d, %v", got.MaxInFlight, got.Version, w.Version, err)
	}
}

func testWebhookDelete(t *testing.T, b *bench) {
	w := b.Webhook(t)
	if err := b.DeleteWebhook(t.Context(), account, w.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.GetWebhook(t.Context(), account, w.ID)
	storetest.WantNotFound(t, "get", err)
	storetest.WantNotFound(t, "delete again", b.DeleteWebhook(t.Context(), account, w.ID))
	changed, version, err := b.Webhooks(t.Context(), w.Version)
	if err != nil || len(changed) != 1 || version != w.Version+1 {
		t.Fatalf("%d changed, version %d, %v", len(changed), version, err)
	}
	if c := changed[0]; c.ID != w.ID || !c.Deleted || c.Active || c.Secret.Reveal() != "" || c.URL != "" || c.Version != version {
		t.Errorf("tombstone: %+v", c)
	}
}

func testWebhooksSince(t *testing.T, b *bench) {
	one, two, three := b.Webhook(t), b.Webhook(t), b.Webhook(t)
	other := b.Webhook(t, func(w *domain.Webhook) { w.Account = "other" })
	if err := b.DeleteWebhook(t.Context(), account, two.ID); err != nil {
		t.Fatal(err)
	}
	all, version, err := b.Webhooks(t.Context(), 0)
	if err != nil || version != other.Version+1 {
		t.Fatalf("version %d, %v", version, err)
	}
	if diff := cmp.Diff([]domain.WebhookID{one.ID, three.ID, other.ID}, webhookIDs(all)); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(one, all[0], storetest.Secrets()); diff != "" {
		t.Errorf("webhook (-created +read):\n%s", diff)
	}
	b.setActive(t, one.ID, false)
	changed, next, err := b.Webhooks(t.Context(), version)
	if err != nil || next != version+1 {
		t.Fatalf("version %d, %v", next, err)
	}
	if diff := cmp.Diff([]domain.WebhookID{one.ID}, webhookIDs(changed)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if none, same, err := b.Webhooks(t.Context(), next); err != nil || len(none) != 0 || same != next {
		t.Errorf("%d changed since the last version, %v", len(none), err)
	}
}

func testHealth(t *testing.T, b *bench) {
	w := b.Webhook(t)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for _, step := range []struct {
		name   string
		change domain.HealthChange
		want   time.Time
	}{
		{"begins to fail", domain.HealthChange{FailingSince: at(10), At: at(10)}, at(10)},
		{"another one saw it later", domain.HealthChange{FailingSince: at(12), At: at(12)}, at(10)},
		{"recovers", domain.HealthChange{Recovered: true, At: at(20)}, time.Time{}},
		{"an old failure comes late", domain.HealthChange{FailingSince: at(11), At: at(11)}, time.Time{}},
		{"fails again", domain.HealthChange{FailingSince: at(30), At: at(30)}, at(30)},
		{"an old recovery comes late", domain.HealthChange{Recovered: true, At: at(20)}, at(30)},
	} {
		step.change.Webhook = w.ID
		b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{step.change}})
		_, h, err := b.GetWebhook(t.Context(), account, w.ID)
		if err != nil || !h.FailingSince.Equal(step.want) {
			t.Errorf("%s: failing since %v, want %v (%v)", step.name, h.FailingSince, step.want, err)
		}
	}
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{
		{Webhook: w.ID, DisabledVersion: 7, DisabledReason: domain.DisabledFailing, At: at(40)},
		{Webhook: w.ID, DisabledVersion: 6, DisabledReason: domain.DisabledGone, At: at(41)},
		{Webhook: w.ID, DisabledVersion: 7, DisabledReason: domain.DisabledGone, At: at(42)},
	}})
	_, got, err := b.GetWebhook(t.Context(), account, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := domain.Health{
		Webhook: w.ID, FailingSince: at(30), DisabledVersion: 7, DisabledReason: domain.DisabledFailing,
		DisabledAt: at(40), UpdatedAt: noon,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}

func testHealthSince(t *testing.T, b *bench) {
	one, two := b.Webhook(t), b.Webhook(t)
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{Webhook: one.ID, FailingSince: noon, At: noon}}})
	b.Clock.Advance(time.Minute)
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{Webhook: two.ID, FailingSince: noon, At: noon}}})
	if all, err := b.Healths(t.Context(), time.Time{}); err != nil || len(all) != 2 {
		t.Errorf("%d healths, %v", len(all), err)
	}
	late, err := b.Healths(t.Context(), noon.Add(time.Minute))
	if err != nil || len(late) != 1 || late[0].Webhook != two.ID {
		t.Errorf("%+v, %v", late, err)
	}
}

func testLiveWebhooks(t *testing.T, b *bench) {
	w, deleted, other := b.Webhook(t), b.Webhook(t), b.Webhook(t, func(w *domain.Webhook) { w.Account = "other" })
	b.Webhook(t)
	if err := b.DeleteWebhook(t.Context(), account, deleted.ID); err != nil {
		t.Fatal(err)
	}
	got, err := b.LiveWebhooks(t.Context(), []domain.WebhookID{other.ID, deleted.ID, w.ID, "0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001"})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b domain.Webhook) int { return int(a.Version - b.Version) })
	if diff := cmp.Diff([]domain.Webhook{w, other}, got, storetest.Secrets()); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if none, err := b.LiveWebhooks(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("none asked for: %d, %v", len(none), err)
	}
}

func testFilterBytes(t *testing.T, b *bench) {
	filter := func(size int) string {
		return `{"data.a":"` + strings.Repeat("é", (size-13)/2) + `"}` + strings.Repeat(" ", 1-size%2)
	}
	const each = 64 << 10 // more than callers may have
	var last domain.Webhook
	for range domain.MaxFilterBytes / each {
		last = b.Webhook(t, func(w *domain.Webhook) { w.Filter = filter(each) })
	}
	if got := len(last.Filter); got != each {
		t.Fatalf("a filter of %d bytes", got)
	}
	more := domain.Webhook{Account: account, URL: "https://receiver.example/", Events: []domain.EventType{domain.ShipmentCreated}, Secret: domain.NewSecret(), Active: true, Filter: "{}"}
	if _, _, err := b.CreateWebhook(t.Context(), more, nil); !errors.Is(err, pipeline.ErrFilters) || !errors.Is(err, domain.ErrLimit) {
		t.Errorf("one more: %v", err)
	}
	b.Webhook(t) // without a filter
	set := func(what, text string, want error) {
		t.Helper()
		_, _, err := b.UpdateWebhook(t.Context(), account, last.ID, func(w *domain.Webhook) error { w.Filter = text; return nil })
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	set("a longer one", filter(each)+" ", pipeline.ErrFilters)
	set("another", strings.Replace(filter(each), "data.a", "data.b", 1), nil)
	set("a shorter one", filter(each-2), nil)
	if _, _, err := b.CreateWebhook(t.Context(), more, nil); err != nil {
		t.Errorf("there is room: %v", err)
	}
}
