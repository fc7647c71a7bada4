package domains_test

import (
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/domains"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what callers rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, func(b *storetest.Bench) *bench { return &bench{b, domains.New(b.DB)} }, map[string]storetest.Tests[*bench]{"domains": {
		"tells gateways of verified domains alone":  testServed,
		"is looked up by one process at a time":     testChecks,
		"is looked up again each week":              testActiveChecks,
		"passes after the notice":                   testPasses,
		"ends a notice with either domain":          testDeletedDuringNotice,
		"passes from whoever was given notice":      testNoticeOfOneRow,
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
	return b.createFor(t, domain.DefaultAccount, hostname, verified)
}

func (b *bench) createFor(t *testing.T, account, hostname string, verified bool) domain.CustomDomain {
	t.Helper()
	made, err := b.CreateCustomDomain(t.Context(), domain.CustomDomain{Account: account, Hostname: hostname}, verified)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (b *bench) addAccount(t *testing.T, name string) {
	t.Helper()
	writing, _ := b.DB.Handles()
	if _, err := writing.ExecContext(t.Context(), "INSERT INTO accounts (id, name, created_at) VALUES ($1, $2, $3)", "acct_"+name, name, b.DB.Moment(b.DB.Now())); err != nil {
		t.Fatal(err)
	}
}

// look notes that the TXT record has the proofs.
func (b *bench) look(t *testing.T, d domain.CustomDomain, proofs ...domain.CustomDomain) domains.CheckResult {
	t.Helper()
	answer := domains.Answer{Known: true}
	for _, proof := range proofs {
		answer.Proofs = append(answer.Proofs, proof.Token)
	}
	noted, err := b.NoteAnswer(t.Context(), d, answer)
	if err != nil {
		t.Fatal(err)
	}
	return noted
}

func (b *bench) drop(t *testing.T, d domain.CustomDomain) {
	t.Helper()
	if err := b.DeleteCustomDomain(t.Context(), d.Account, d.Hostname, ""); err != nil {
		t.Fatal(err)
	}
}

// isQuiet checks that the hostname of an account is not to pass, and that nothing is said of it.
func (b *bench) isQuiet(t *testing.T, d domain.CustomDomain) {
	t.Helper()
	got, err := b.GetCustomDomain(t.Context(), d.Account, d.Hostname)
	if err != nil || !got.NoticeOn.IsZero() || len(got.Answers) > 0 {
		t.Errorf("%s has %+v, %v", d.Account, got, err)
	}
	if ends, err := b.CountExpiringDomains(t.Context()); err != nil || ends.N != 0 {
		t.Errorf("what is to pass: %+v, %v", ends, err)
	}
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

func testActiveChecks(t *testing.T, b *bench) {
	made := b.create(t, "api.example.org", false)
	proof := domains.Answer{Known: true, Proofs: []string{made.Token}}
	for looks := range 3 {
		noted, err := b.NoteAnswer(t.Context(), made, proof)
		if err != nil || !noted.Domain.Active() || !noted.Domain.ProvenOn.Equal(b.DB.Now()) || noted.Changed != (looks == 0) {
			t.Fatalf("%+v, %v", noted, err)
		}
		b.Clock.Advance(6*24*time.Hour - time.Second)
		if claimed, err := b.ClaimChecks(t.Context(), 10); err != nil || len(claimed) != 0 {
			t.Errorf("before they are due: %v, %v", claimed, err)
		}
		b.Clock.Advance(2 * 24 * time.Hour)
		if claimed, err := b.ClaimChecks(t.Context(), 10); err != nil || len(claimed) != 1 || claimed[0].ID != made.ID {
			t.Errorf("when they are due: %v, %v", claimed, err)
		}
	}
}

// Each of the two is looked at once an hour while there is a notice, also who has waited for longer than it is looked at otherwise.
func testPasses(t *testing.T, b *bench) {
	b.addAccount(t, "other")
	has := b.create(t, "api.example.org", true)
	wants := b.createFor(t, "other", "api.example.org", false)
	b.Clock.Advance(domain.DomainWaitTime + time.Hour)
	if _, err := b.ClaimChecks(t.Context(), 10); err != nil { // the last look by itself
		t.Fatal(err)
	}
	proof := domains.Answer{Known: true, Proofs: []string{wants.Token}}
	noted, err := b.NoteAnswer(t.Context(), wants, proof)
	if err != nil || noted.Domain.Active() || !noted.Changed || noted.HeldByOther || !noted.Domain.NoticeUntil().Equal(b.DB.Now().Add(domain.DomainNoticeTime)) {
		t.Fatalf("%+v, %v", noted, err)
	}
	for hour := range int(domain.DomainNoticeTime / time.Hour) {
		b.Clock.Advance(time.Hour)
		claimed, err := b.ClaimChecks(t.Context(), 10)
		if err != nil || len(claimed) != 2 {
			t.Fatalf("after %d hours: %v, %v", hour+1, claimed, err)
		}
		slices.SortFunc(claimed, func(a, _ domain.CustomDomain) int { // the look at who has it lets it pass as well
			if a.ID == has.ID {
				return -1
			}
			return 1
		})
		for _, d := range claimed {
			if noted, err = b.NoteAnswer(t.Context(), d, proof); err != nil && !errors.Is(err, domain.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if passed := hour+1 == int(domain.DomainNoticeTime/time.Hour); noted.Domain.Active() != passed {
			t.Fatalf("after %d hours: %+v", hour+1, noted.Domain)
		}
	}
	lost, err := b.GetCustomDomain(t.Context(), domain.DefaultAccount, "api.example.org")
	if err != nil || lost.Active() || lost.ID == has.ID || !lost.LostOn.Equal(b.DB.Now()) {
		t.Errorf("who had it has %+v, %v", lost, err)
	}
	if ends, err := b.CountExpiringDomains(t.Context()); err != nil || ends.N != 0 {
		t.Errorf("what is to pass: %+v, %v", ends, err)
	}
}

// Whichever of the two accounts deletes its domain ends the notice of both. Who has the hostname next gets a notice of its own.
func testDeletedDuringNotice(t *testing.T, b *bench) {
	const name = "api.example.org"
	b.addAccount(t, "other")
	b.addAccount(t, "third")
	has, wants := b.create(t, name, true), b.createFor(t, "other", name, false)

	b.look(t, wants, wants)
	b.Clock.Advance(domain.DomainNoticeTime)
	b.drop(t, wants)
	b.isQuiet(t, has)
	kept, _, err := auditlog.New(b.DB).ListAudit(t.Context(), auditlog.AuditFilter{Account: has.Account, Action: auditlog.ActionKeepDomain, Page: store.Page{Limit: 2}})
	if err != nil || len(kept) != 1 {
		t.Errorf("its audit log has %v, %v", kept, err)
	}
	wants = b.createFor(t, "other", name, false)
	if noted := b.look(t, wants, wants); noted.Domain.Active() || !noted.Domain.NoticeOn.Equal(b.DB.Now()) {
		t.Errorf("who comes back has %+v", noted.Domain)
	}
	b.Clock.Advance(domain.DomainNoticeTime - time.Second)
	if noted := b.look(t, has, wants); !noted.Domain.Active() {
		t.Errorf("before its second notice is over, who had the hostname has %+v", noted.Domain)
	}

	b.drop(t, has)
	b.isQuiet(t, wants)
	third := b.createFor(t, "third", name, false)
	if noted := b.look(t, third, wants, third); !noted.Domain.Active() {
		t.Fatalf("the hostname is nobody's, and the third account has %+v", noted.Domain)
	}
	b.Clock.Advance(time.Hour)
	if noted := b.look(t, wants, wants); noted.Domain.Active() || !noted.Domain.NoticeOn.Equal(b.DB.Now()) {
		t.Errorf("without a notice to the third account, the other one has %+v", noted.Domain)
	}
	if noted := b.look(t, third, wants); !noted.Domain.Active() || !noted.Domain.NoticeOn.Equal(b.DB.Now()) {
		t.Errorf("the third account has %+v", noted.Domain)
	}
	b.Clock.Advance(domain.DomainNoticeTime)
	if noted := b.look(t, wants, wants); !noted.Domain.Active() {
		t.Errorf("after the notice, the other account has %+v", noted.Domain)
	}
}

// A notice that is in the row of who wants the hostname alone was given to nobody.
func testNoticeOfOneRow(t *testing.T, b *bench) {
	b.addAccount(t, "other")
	has, wants := b.create(t, "api.example.org", true), b.createFor(t, "other", "api.example.org", false)
	b.look(t, wants, wants)
	writing, _ := b.DB.Handles()
	if _, err := writing.ExecContext(t.Context(), "UPDATE gateway_domains SET notice_at = NULL WHERE id = $1", has.ID); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(domain.DomainNoticeTime)
	for _, d := range []domain.CustomDomain{wants, has} {
		if noted := b.look(t, d, wants); noted.Domain.Active() != (d.ID == has.ID) || !noted.Domain.NoticeOn.Equal(b.DB.Now()) {
			t.Errorf("%s has %+v", d.Account, noted.Domain)
		}
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
