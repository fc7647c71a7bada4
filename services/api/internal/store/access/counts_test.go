package access_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

func countTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"are exact whatever comes and goes":       testCountsExact,
		"are exact when many come and go at once": testCountsAtOnce,
		"begin with what is there":                testCountsBegin,
		"are made anew after a week":              testCountsAgain,
		"bound what an account has":               testLimits,
	}
}

// What the rows say, and what is counted.
const (
	counted = "SELECT account || ' ' || kind || ' ' || n FROM account_counts WHERE kind <> 'sources' AND n <> 0 ORDER BY account, kind"
	there   = `SELECT account || ' ' || kind || ' ' || count(*) FROM (
		SELECT account, 'projects' AS kind FROM projects
		UNION ALL SELECT account, 'buckets' FROM key_buckets
		UNION ALL SELECT b.account, 'consumers' FROM key_consumers c JOIN key_buckets b ON b.id = c.bucket_id
		UNION ALL SELECT b.account, 'keys' FROM api_keys p JOIN key_consumers c ON c.id = p.consumer_id JOIN key_buckets b ON b.id = c.bucket_id
		UNION ALL SELECT b.account, 'managers' FROM key_managers p JOIN key_consumers c ON c.id = p.consumer_id JOIN key_buckets b ON b.id = c.bucket_id
	) AS rows_there GROUP BY account, kind ORDER BY account, kind`
)

func (b *bench) texts(t *testing.T, query string) []string {
	t.Helper()
	var texts []string
	if err := b.DB.Reading(t.Context()).Raw(query).Scan(&texts).Error; err != nil {
		t.Fatal(err)
	}
	return texts
}

func (b *bench) exec(t *testing.T, statement string) {
	t.Helper()
	if err := b.DB.Writing(t.Context()).Exec(statement).Error; err != nil {
		t.Fatal(err)
	}
}

func (b *bench) wantExact(t *testing.T, after string) {
	t.Helper()
	if diff := cmp.Diff(b.texts(t, there), b.texts(t, counted)); diff != "" {
		t.Errorf("after %s (-there +counted):\n%s", after, diff)
	}
}

func testCountsExact(t *testing.T, b *bench) {
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		b.wantExact(t, what)
	}
	_, _, err := b.CreateAccount(ctx, "globex", b.apiKey())
	must("an account", err)
	_, err = b.CreateAdminKey(ctx, "globex", b.apiKey())
	must("an admin key", err)
	must("its bucket's end", b.DeleteBucket(ctx, access.BucketRef{Account: "globex", Bucket: "admin"}))
	_, err = b.CreateAdminKey(ctx, "globex", b.apiKey())
	must("an admin key with its bucket", err)
	_, err = b.CreateProject(ctx, "globex", "shop")
	must("a project", err)

	bucket := domain.Bucket{Account: account, Name: "partners"}
	_, err = b.CreateBucket(ctx, bucket)
	must("a bucket", err)
	_, err = b.CreateBucket(ctx, bucket)
	storetest.WantConflict(t, "the same bucket", err)
	b.wantExact(t, "a conflict")
	consumer := func(name string) access.ConsumerRef {
		_, err := b.CreateConsumer(ctx, domain.Consumer{Account: account, Bucket: bucket.Name, Name: name},
			[]domain.Manager{{Email: "ada@example.com"}, {Sub: "idp|eve"}}, []domain.APIKey{b.apiKey(), b.apiKey()})
		must("consumer "+name, err)
		return access.ConsumerRef{Account: account, Bucket: bucket.Name, Consumer: name}
	}
	one := consumer("one")
	keys, err := b.CreateKeys(ctx, one, []domain.APIKey{b.apiKey(), b.apiKey(), b.apiKey()})
	must("keys", err)
	must("a key's end", b.DeleteKey(ctx, one, keys[0].ID))
	_, err = b.RollKeys(ctx, one, b.apiKey(), time.Time{})
	must("rolled keys", err)
	m, err := b.CreateManager(ctx, one, domain.Manager{Email: "joe@example.com"})
	must("a manager", err)
	must("a manager's end", b.DeleteManager(ctx, one, m.ID))
	m, err = b.CreateManager(ctx, one, domain.Manager{Email: "joe@example.com", Sub: "idp|joe"})
	must("another manager", err)
	must("an invitation that is declined", b.DeclineInvitation(ctx, access.Person{Sub: "idp|joe"}, m.ID))
	m, err = b.CreateManager(ctx, one, domain.Manager{Sub: "idp|max"})
	must("a third manager", err)
	must("an invitation that is accepted", b.AcceptInvitation(ctx, access.Person{Sub: "idp|max"}, m.ID))
	consumer("two")
	must("a consumer's end", b.DeleteConsumer(ctx, one))
	must("a bucket's end", b.DeleteBucket(ctx, access.BucketRef{Account: account, Bucket: bucket.Name}))
}

func testCountsAtOnce(t *testing.T, b *bench) {
	ref := consumerRef(b.consumer(t, b.bucket(t), 0))
	b.exec(t, "DELETE FROM account_counts") // the first change is that of several at once
	var wait sync.WaitGroup
	for i := range 8 {
		keys := []domain.APIKey{b.apiKey(), b.apiKey(), b.apiKey()}
		email := fmt.Sprintf("p%d@example.com", i)
		wait.Go(func() {
			created, err := b.CreateKeys(t.Context(), ref, keys)
			if err == nil {
				err = b.DeleteKey(t.Context(), ref, created[0].ID)
			}
			if err != nil {
				t.Errorf("keys: %v", err)
			}
			m, err := b.CreateManager(t.Context(), ref, domain.Manager{Email: email})
			if err != nil {
				t.Errorf("manager: %v", err)
			}
			var both sync.WaitGroup
			both.Go(func() { _ = b.DeclineInvitation(t.Context(), access.Person{Email: email}, m.ID) })
			both.Go(func() { _ = b.DeleteManager(t.Context(), ref, m.ID) })
			both.Go(func() {
				bucket := domain.Bucket{Account: account, Name: fmt.Sprintf("b%d", i)}
				if _, err := b.CreateBucket(t.Context(), bucket); err != nil {
					t.Errorf("bucket: %v", err)
				}
			})
			both.Wait()
		})
	}
	wait.Wait()
	// Counts that no change of this test has begun are missing.
	b.wantSubset(t)
	wait.Go(func() { _ = b.DeleteBucket(t.Context(), access.BucketRef{Account: account, Bucket: ref.Bucket}) })
	for range 4 {
		key := b.apiKey()
		wait.Go(func() { _, _ = b.CreateKeys(t.Context(), ref, []domain.APIKey{key}) })
	}
	wait.Wait()
	b.wantExact(t, "a bucket's end beside new keys")
}

func (b *bench) wantSubset(t *testing.T) {
	t.Helper()
	is := make(map[string]bool)
	for _, line := range b.texts(t, there) {
		is[line] = true
	}
	lines := b.texts(t, counted)
	if len(lines) < 2 {
		t.Errorf("counted: %q", lines)
	}
	for _, line := range lines {
		if !is[line] {
			t.Errorf("counted %q; there: %v", line, is)
		}
	}
}

func testCountsBegin(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 0)
	if _, err := b.CreateKeys(t.Context(), consumerRef(c), []domain.APIKey{b.apiKey(), b.apiKey()}); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "DELETE FROM account_counts")
	b.Limit(domain.Limits{Keys: 3})
	if _, err := b.CreateKeys(t.Context(), consumerRef(c), []domain.APIKey{b.apiKey()}); err != nil {
		t.Errorf("the third key: %v", err)
	}
	_, err := b.CreateKeys(t.Context(), consumerRef(c), []domain.APIKey{b.apiKey()})
	wantLimit(t, "the fourth key", err, domain.LimitError{What: "keys", Setting: "WAYBILL_MAX_KEYS", Count: 4, Most: 3})
}

// testCountsAgain has counts that are wrong, as where another version has written.
func testCountsAgain(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 0)
	if _, err := b.CreateKeys(t.Context(), consumerRef(c), []domain.APIKey{b.apiKey()}); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "UPDATE account_counts SET n = n + 5")
	again := func() {
		t.Helper()
		if err := b.CountAgain(t.Context(), b.Clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	b.Clock.Advance(6 * 24 * time.Hour)
	again()
	if got := b.texts(t, counted); !cmp.Equal(got, []string{account + " buckets 6", account + " consumers 6", account + " keys 6"}) {
		t.Errorf("after six days: %q", got)
	}
	b.Clock.Advance(25 * time.Hour)
	again()
	b.wantExact(t, "a week")
}

func wantLimit(t *testing.T, what string, err error, want domain.LimitError) {
	t.Helper()
	got, ok := errors.AsType[*domain.LimitError](err)
	if !ok || *got != want || !errors.Is(err, domain.ErrLimit) {
		t.Errorf("%s: %v, want %+v", what, err, want)
	}
}

func testLimits(t *testing.T, b *bench) {
	b.Limit(domain.Limits{Projects: 1, Buckets: 4, Consumers: 2, Keys: 3, Managers: 2})
	ctx := t.Context()
	if _, err := b.CreateProject(ctx, account, "shop"); err != nil {
		t.Fatal(err)
	}
	_, err := b.CreateProject(ctx, account, "other")
	wantLimit(t, "a second project", err, domain.LimitError{What: "projects", Setting: "WAYBILL_MAX_PROJECTS", Count: 2, Most: 1})
	if _, err := b.CreateBucket(ctx, domain.Bucket{Account: account, Name: "four"}); err != nil {
		t.Fatal(err)
	}
	_, err = b.CreateBucket(ctx, domain.Bucket{Account: account, Name: "five"})
	wantLimit(t, "a fifth bucket", err, domain.LimitError{What: "buckets", Setting: "WAYBILL_MAX_BUCKETS", Count: 5, Most: 4})
	create := func(name string, managers, keys int) error {
		people, fresh := make([]domain.Manager, managers), make([]domain.APIKey, keys)
		for i := range people {
			people[i].Sub = fmt.Sprintf("idp|%s-%d", name, i)
		}
		for i := range fresh {
			fresh[i] = b.apiKey()
		}
		_, err := b.CreateConsumer(ctx, domain.Consumer{Account: account, Bucket: "four", Name: name}, people, fresh)
		return err
	}
	if err := create("one", 2, 2); err != nil {
		t.Fatal(err)
	}
	wantLimit(t, "two more keys", create("two", 0, 2), domain.LimitError{What: "keys", Setting: "WAYBILL_MAX_KEYS", Count: 4, Most: 3})
	wantLimit(t, "a third manager", create("two", 1, 0), domain.LimitError{What: "managers", Setting: "WAYBILL_MAX_MANAGERS", Count: 3, Most: 2})
	if err := create("two", 0, 1); err != nil {
		t.Fatal(err)
	}
	wantLimit(t, "a third consumer", create("three", 0, 0), domain.LimitError{What: "consumers", Setting: "WAYBILL_MAX_CONSUMERS", Count: 3, Most: 2})
	b.wantExact(t, "refusals")
	// Another account has its own, and what goes makes room.
	if _, _, err := b.CreateAccount(ctx, "globex", b.apiKey()); err != nil {
		t.Errorf("another account: %v", err)
	}
	if err := b.DeleteConsumer(ctx, access.ConsumerRef{Account: account, Bucket: "four", Consumer: "one"}); err != nil {
		t.Fatal(err)
	}
	if err := create("three", 2, 2); err != nil {
		t.Errorf("in the room of what was deleted: %v", err)
	}
	// What is above a limit that became lower stays, and may become less.
	b.Limit(domain.Limits{Keys: 1})
	keys, _, err := b.ListKeys(ctx, access.ConsumerRef{Account: account, Bucket: "four", Consumer: "three"}, false, store.Page{Limit: 10})
	if err == nil {
		err = b.DeleteKey(ctx, access.ConsumerRef{Account: account, Bucket: "four", Consumer: "three"}, keys[0].ID)
	}
	if err != nil {
		t.Errorf("to have less: %v", err)
	}
}
