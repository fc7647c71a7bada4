package domains_test

import (
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/domains"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what callers rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, func(b *storetest.Bench) *bench { return &bench{b, domains.New(b.DB)} }, map[string]storetest.Tests[*bench]{"domains": {
		"tells gateways of verified domains alone":  testServed,
		"is looked up by one process at a time":     testChecks,
		"keeps certificates sealed":                 testCertificate,
		"keeps values below keys":                   testStorage,
		"gives a lock to one":                       testLocks,
		"forgets removed domains with what is kept": testPurge,
	}})
}

type bench struct {
	*storetest.Bench
	*domains.Domains
}

func (b *bench) create(t *testing.T, hostname string, verified bool) domain.CustomDomain {
	t.Helper()
	made, err := b.CreateCustomDomain(t.Context(), domain.CustomDomain{Account: domain.DefaultAccount, Hostname: hostname}, verified)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func testServed(t *testing.T, b *bench) {
	b.create(t, "waits.example.org", false)
	b.create(t, "api.example.org", true)
	first, version, err := b.ServedDomains(t.Context(), 0)
	if err != nil || len(first) != 1 || first[0].Hostname != "api.example.org" || first[0].Removed {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := b.DeleteCustomDomain(t.Context(), domain.DefaultAccount, "api.example.org", ""); err != nil {
		t.Fatal(err)
	}
	later, _, err := b.ServedDomains(t.Context(), version)
	if err != nil || len(later) != 1 || !later[0].Removed || later[0].ID != first[0].ID {
		t.Errorf("%+v, %v", later, err)
	}
}

func testChecks(t *testing.T, b *bench) {
	for _, name := range []string{"a.example.org", "b.example.org", "c.example.org"} {
		b.create(t, name, false)
	}
	if claimed, err := b.ClaimChecks(t.Context(), 10); err != nil || len(claimed) != 0 {
		t.Errorf("before they are due: %v, %v", claimed, err)
	}
	writing, _ := b.DB.Handles()
	if _, err := writing.ExecContext(t.Context(), "UPDATE gateway_domains SET next_check_at = $1", b.DB.Moment(b.DB.Now().Add(-time.Minute))); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var names []string
	var claiming sync.WaitGroup
	for range 4 {
		claiming.Go(func() {
			claimed, err := b.ClaimChecks(t.Context(), 10)
			mu.Lock()
			defer mu.Unlock()
			for _, d := range claimed {
				names = append(names, d.Hostname)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	claiming.Wait()
	slices.Sort(names)
	if !slices.Equal(names, []string{"a.example.org", "b.example.org", "c.example.org"}) {
		t.Errorf("claimed: %v", names)
	}
}

func testCertificate(t *testing.T, b *bench) {
	made := b.create(t, "api.example.org", true)
	want := domain.UploadedCertificate{Chain: "chain", PrivateKey: "secret", Fingerprint: "f", ValidTo: time.Now().Add(time.Hour).UTC().Truncate(time.Second)}
	if err := b.PutCertificate(t.Context(), domain.DefaultAccount, "api.example.org", want); err != nil {
		t.Fatal(err)
	}
	if got, err := b.UploadedCertificate(t.Context(), made.ID); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	_, reading := b.DB.Handles()
	var sealed []byte
	if err := reading.QueryRowContext(t.Context(), "SELECT private_key FROM gateway_domain_certificates").Scan(&sealed); err != nil || slices.Contains([]string{"secret", ""}, string(sealed)) {
		t.Errorf("stored: %q, %v", sealed, err)
	}
}

func testStorage(t *testing.T, b *bench) {
	for _, key := range []string{"a/b", "a/c/d", "ab/x", "a"} {
		if err := b.PutACME(t.Context(), key, []byte("v "+key)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.PutACME(t.Context(), "a/b", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if value, _, err := b.ACME(t.Context(), "a/b"); err != nil || string(value) != "new" {
		t.Errorf("%q, %v", value, err)
	}
	if keys, err := b.ACMEKeys(t.Context(), "a"); err != nil || !slices.Equal(keys, []string{"a", "a/b", "a/c/d"}) {
		t.Errorf("%v, %v", keys, err)
	}
	if err := b.DeleteACME(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if keys, err := b.ACMEKeys(t.Context(), ""); err != nil || !slices.Equal(keys, []string{"ab/x"}) {
		t.Errorf("%v, %v", keys, err)
	}
	if _, _, err := b.ACME(t.Context(), "a/b"); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

func testLocks(t *testing.T, b *bench) {
	lock := func(owner string, want bool) {
		t.Helper()
		if taken, err := b.LockACME(t.Context(), "name", owner); err != nil || taken != want {
			t.Errorf("%s: %t, %v", owner, taken, err)
		}
	}
	lock("one", true)
	lock("two", false)
	lock("one", true) // it renews
	writing, _ := b.DB.Handles()
	if _, err := writing.ExecContext(t.Context(), "UPDATE gateway_acme_locks SET expires_at = $1", b.DB.Moment(b.DB.Now().Add(-time.Second))); err != nil {
		t.Fatal(err)
	}
	lock("two", true)
	if err := b.UnlockACME(t.Context(), "name", "one"); err != nil { // it has ended, and is another's
		t.Fatal(err)
	}
	lock("one", false)
	if err := b.UnlockACME(t.Context(), "name", "two"); err != nil {
		t.Fatal(err)
	}
	lock("one", true)
}

func testPurge(t *testing.T, b *bench) {
	names := []string{"kept.example.org", "again.example.org", "gone.example.org"}
	for i, name := range names {
		b.create(t, name, true)
		state := domains.CertificateState{ValidTo: b.DB.Now().Add(time.Hour), Failures: i + 1}
		if err := b.NoteCertificate(t.Context(), name, state); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names[1:] {
		if err := b.DeleteCustomDomain(t.Context(), domain.DefaultAccount, name, ""); err != nil {
			t.Fatal(err)
		}
	}
	b.create(t, "again.example.org", true)
	for _, c := range []struct {
		now  time.Time
		want []int // failures; 0: there is no state
	}{
		{b.DB.Now(), []int{1, 2, 3}},
		{b.DB.Now().Add(domain.DomainRemovedTime + time.Minute), []int{1, 2, 0}},
	} {
		if err := b.Purge(t.Context(), c.now); err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			if state, err := b.CertificateState(t.Context(), name); err != nil || state.Failures != c.want[i] {
				t.Errorf("at %s %s has %+v, %v", c.now, name, state, err)
			}
		}
	}
}
