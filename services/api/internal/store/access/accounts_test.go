package access_test

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/storetest"
)

func accountTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"begins with the default account":  testDefaultAccount,
		"makes an account with its key":    testCreateAccount,
		"lists accounts in pages":          testListAccounts,
		"makes a project with its buckets": testCreateProject,
		"makes a project whole or not":     testCreateProjectConflict,
		"finds no name that can't be kept": testUnstorable,
	}
}

// apiKey makes up a key; the store does not look at its form.
func (b *bench) apiKey() domain.APIKey {
	text := fmt.Sprintf("wbk_%032d_%08x", b.Next(), b.Next())
	hash := sha256.Sum256([]byte(text))
	return domain.APIKey{Key: domain.Secret(text), Suffix: text[len(text)-8:], Hash: hash[:]}
}

// all is a page of everything.
func all() store.Page { return store.Page{Limit: 1000} }

func wantID(t *testing.T, id, prefix string, length int) {
	t.Helper()
	if !regexp.MustCompile(fmt.Sprintf("^%s_[0-9A-Za-z]{%d}$", prefix, length)).MatchString(id) {
		t.Errorf("id %q", id)
	}
}

func testDefaultAccount(t *testing.T, b *bench) {
	got, err := b.GetAccount(t.Context(), domain.DefaultAccount)
	if err != nil || got.Name != domain.DefaultAccount {
		t.Fatalf("%+v, %v", got, err)
	}
	wantID(t, got.ID, "acct", 24)
	if age := time.Since(got.CreatedOn); age < -time.Minute || age > time.Hour || !got.CreatedOn.Equal(got.CreatedOn.Truncate(time.Millisecond)) {
		t.Errorf("made on %v", got.CreatedOn)
	}
	_, err = b.GetAccount(t.Context(), "other")
	storetest.WantNotFound(t, "another account", err)
}

func testCreateAccount(t *testing.T, b *bench) {
	key := b.apiKey()
	a, got, err := b.CreateAccount(t.Context(), "acme", key)
	if err != nil {
		t.Fatal(err)
	}
	wantID(t, a.ID, "acct", 24)
	wantID(t, got.ID, "key", 24)
	if a.Name != "acme" || !a.CreatedOn.Equal(noon) || got.Key.Reveal() != key.Key.Reveal() || !got.ExpiresOn.IsZero() {
		t.Errorf("%+v, %+v", a, got)
	}
	holder, which, err := b.FindKey(t.Context(), [][]byte{key.Hash})
	if err != nil || which != 0 {
		t.Fatalf("%d, %v", which, err)
	}
	want := domain.KeyHolder{
		KeyID: got.ID, Account: "acme", BucketID: holder.BucketID, Bucket: "admin", ConsumerID: holder.ConsumerID, Consumer: "admin",
		Scopes: []domain.Scope{domain.ScopeAdmin},
	}
	if diff := cmp.Diff(want, holder); diff != "" {
		t.Errorf("holder (-want +got):\n%s", diff)
	}
	bucket, err := b.GetBucket(t.Context(), access.BucketRef{Account: "acme", Bucket: "admin"})
	if err != nil || bucket.Retrievable {
		t.Errorf("%+v, %v", bucket, err)
	}
	_, _, err = b.CreateAccount(t.Context(), "acme", b.apiKey())
	storetest.WantConflict(t, "again", err)
	_, _, err = b.CreateAccount(t.Context(), domain.DefaultAccount, b.apiKey())
	storetest.WantConflict(t, "the default account", err)
	_, _, err = b.CreateAccount(t.Context(), "late", key)
	storetest.WantConflict(t, "a known key", err)
	_, err = b.GetAccount(t.Context(), "late")
	storetest.WantNotFound(t, "the account of a known key", err)
}

func testListAccounts(t *testing.T, b *bench) {
	b.Clock.Set(time.Now().Add(time.Hour)) // the default account is as old as the database
	want := []string{domain.DefaultAccount}
	for i := range 4 {
		name := fmt.Sprintf("account-%d", 9-i)
		if _, _, err := b.CreateAccount(t.Context(), name, b.apiKey()); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	var got []string
	for offset := 0; offset < 6; offset += 2 {
		page, total, err := b.ListAccounts(t.Context(), store.Page{Limit: 2, Offset: offset})
		if err != nil || total != 5 {
			t.Fatalf("%d, %v", total, err)
		}
		for _, a := range page {
			got = append(got, a.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func testCreateProject(t *testing.T, b *bench) {
	p, err := b.CreateProject(t.Context(), account, "parcels")
	if err != nil {
		t.Fatal(err)
	}
	wantID(t, p.ID, "prj", 24)
	if p.Account != account || p.Name != "parcels" || !p.CreatedOn.Equal(noon) {
		t.Errorf("%+v", p)
	}
	buckets, total, err := b.ListBuckets(t.Context(), account, nil, all())
	if err != nil || total != 3 {
		t.Fatalf("%d, %v", total, err)
	}
	for i, name := range []string{"parcels-production", "parcels-preview", "parcels-working-copy"} {
		if buckets[i].Name != name || !buckets[i].Retrievable {
			t.Errorf("%+v, want %s", buckets[i], name)
		}
	}
	projects, total, err := b.ListProjects(t.Context(), account, all())
	if err != nil || total != 1 {
		t.Fatalf("%d, %v", total, err)
	}
	if diff := cmp.Diff([]domain.Project{p}, projects); diff != "" {
		t.Errorf("projects (-want +got):\n%s", diff)
	}
	if list, total, err := b.ListProjects(t.Context(), "other", all()); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("another account: %d, %v", total, err)
	}
	_, err = b.CreateProject(t.Context(), "other", "parcels")
	storetest.WantNotFound(t, "in no account", err)
}

func testCreateProjectConflict(t *testing.T, b *bench) {
	taken := b.bucket(t, func(b *domain.Bucket) { b.Name = "parcels-preview" })
	_, err := b.CreateProject(t.Context(), account, "parcels")
	storetest.WantConflict(t, "with a bucket that is there", err)
	buckets, _, err := b.ListBuckets(t.Context(), account, nil, all())
	if err != nil || len(buckets) != 1 || buckets[0].ID != taken.ID {
		t.Errorf("%d buckets, %v", len(buckets), err)
	}
	if _, total, err := b.ListProjects(t.Context(), account, all()); err != nil || total != 0 {
		t.Errorf("%d projects, %v", total, err)
	}
	if _, err := b.CreateProject(t.Context(), account, "letters"); err != nil {
		t.Fatal(err)
	}
	_, err = b.CreateProject(t.Context(), account, "letters")
	storetest.WantConflict(t, "again", err)
}

// testUnstorable asks for names that a caller can send and no database keeps.
func testUnstorable(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	consumer := b.consumer(t, bucket, 0)
	for _, name := range []string{"\x00", "a\xffb", "\xed\xa0\x80"} {
		_, err := b.GetAccount(t.Context(), name)
		storetest.WantNotFound(t, "account", err)
		_, err = b.GetBucket(t.Context(), access.BucketRef{Account: account, Bucket: name})
		storetest.WantNotFound(t, "bucket", err)
		_, err = b.GetBucket(t.Context(), access.BucketRef{Account: name, Bucket: bucket.Name})
		storetest.WantNotFound(t, "bucket of an account", err)
		ref := consumerRef(consumer)
		ref.Consumer = name
		_, err = b.GetConsumer(t.Context(), ref, access.Parts{})
		storetest.WantNotFound(t, "consumer", err)
		_, err = b.GetKey(t.Context(), consumerRef(consumer), name, false)
		storetest.WantNotFound(t, "key", err)
		storetest.WantNotFound(t, "manager", b.DeleteManager(t.Context(), consumerRef(consumer), name))
		for doing, list := range map[string]func() (int, error){
			"buckets": func() (int, error) { _, n, err := b.ListBuckets(t.Context(), name, nil, all()); return n, err },
			"buckets by tag": func() (int, error) {
				_, n, err := b.ListBuckets(t.Context(), account, map[string]string{name: name}, all())
				return n, err
			},
			"projects": func() (int, error) { _, n, err := b.ListProjects(t.Context(), name, all()); return n, err },
			"audit by actor": func() (int, error) {
				_, n, err := b.ListAudit(t.Context(), auditlog.AuditFilter{Account: account, Actor: name, Page: all()})
				return n, err
			},
			"audit by action": func() (int, error) {
				_, n, err := b.ListAudit(t.Context(), auditlog.AuditFilter{Account: account, Action: name, Page: all()})
				return n, err
			},
			"consumers by manager": func() (int, error) {
				_, n, err := b.ListConsumers(t.Context(), account, bucket.Name, access.ConsumerFilter{ManagerEmail: name, Page: all()}, access.Parts{})
				return n, err
			},
		} {
			if n, err := list(); n != 0 || err != nil {
				t.Errorf("%s: %d, %v", doing, n, err)
			}
		}
	}
}
