package clientcas_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/clientcas"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what callers rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, newBench, map[string]storetest.Tests[*bench]{"client CAs": {
		"keeps what was made":                      testCreate,
		"gives a name once an account":             testNames,
		"takes fifty an account, however fast":     testLimit,
		"finds nothing under another account":      testForeign,
		"is another one by its name":               testRename,
		"is gone when it was deleted":              testDelete,
		"tells gateways of changes":                testServed,
		"forgets what is old":                      testPurge,
		"tells what ends soon":                     testExpiring,
		"tells of every change in the audit log":   testAudit,
		"lists the oldest first, a page at a time": testPages,
	}})
}

type bench struct {
	*storetest.Bench
	*clientcas.ClientCAs
}

func newBench(b *storetest.Bench) *bench { return &bench{b, clientcas.New(b.DB)} }

const account = domain.DefaultAccount

var ends = storetest.Noon().Add(365 * 24 * time.Hour)

func (b *bench) make(t *testing.T, name string) domain.ClientCA {
	t.Helper()
	made, err := b.CreateClientCA(t.Context(), account, name, []byte("DER of "+name), ends)
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return made
}

func want[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func testCreate(t *testing.T, b *bench) {
	made := b.make(t, "partners")
	if !strings.HasPrefix(made.ID, "mtlsca_") {
		t.Error(made.ID)
	}
	want(t, "made", domain.ClientCA{
		ID: made.ID, Account: account, Name: "partners", Certificate: []byte("DER of partners"),
		CreatedOn: storetest.Noon(), UpdatedOn: storetest.Noon(),
	}, made)
	got, err := b.GetClientCA(t.Context(), account, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "read", made, got)
}

func testNames(t *testing.T, b *bench) {
	made := b.make(t, "partners")
	b.make(t, "Partners")
	_, err := b.CreateClientCA(t.Context(), account, "partners", []byte("other"), ends)
	storetest.WantConflict(t, "again", err)
	_, err = b.CreateClientCA(t.Context(), "nobody", "partners", []byte("x"), ends)
	storetest.WantNotFound(t, "in no account", err)
	if err := b.DeleteClientCA(t.Context(), account, made.ID); err != nil {
		t.Fatal(err)
	}
	b.make(t, "partners")
}

func testLimit(t *testing.T, b *bench) {
	var group sync.WaitGroup
	errs := make([]error, domain.MaxClientCAs+5)
	for i := range errs {
		group.Go(func() {
			_, errs[i] = b.CreateClientCA(t.Context(), account, fmt.Sprint("ca_", i), []byte("x"), ends)
		})
	}
	group.Wait()
	refused := 0
	for _, err := range errs {
		if err != nil && !errors.Is(err, domain.ErrLimit) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		}
	}
	if refused != 5 {
		t.Errorf("%d were refused", refused)
	}
}

func testForeign(t *testing.T, b *bench) {
	made := b.make(t, "partners")
	for _, key := range [][2]string{{"other", made.ID}, {account, "mtlsca_x"}, {account, made.ID + "\x00"}, {"\xff", made.ID}} {
		_, err := b.GetClientCA(t.Context(), key[0], key[1])
		storetest.WantNotFound(t, "get", err)
		_, err = b.RenameClientCA(t.Context(), key[0], key[1], "other")
		storetest.WantNotFound(t, "rename", err)
		storetest.WantNotFound(t, "delete", b.DeleteClientCA(t.Context(), key[0], key[1]))
	}
	if list, total, err := b.ListClientCAs(t.Context(), "other", store.Page{Limit: 10}); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("%v, %d, %v", list, total, err)
	}
	got, err := b.GetClientCA(t.Context(), account, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "after that", made, got)
}

func testRename(t *testing.T, b *bench) {
	made := b.make(t, "partners")
	b.make(t, "taken")
	b.Clock.Advance(time.Minute)
	changed, err := b.RenameClientCA(t.Context(), account, made.ID, "suppliers")
	if err != nil {
		t.Fatal(err)
	}
	made.Name, made.UpdatedOn = "suppliers", storetest.Noon().Add(time.Minute)
	want(t, "changed", made, changed)
	got, err := b.GetClientCA(t.Context(), account, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "read", made, got)
	_, err = b.RenameClientCA(t.Context(), account, made.ID, "taken")
	storetest.WantConflict(t, "to a name that is taken", err)
	if _, err := b.RenameClientCA(t.Context(), account, made.ID, "suppliers"); err != nil {
		t.Errorf("to its own name: %v", err)
	}
}

func testDelete(t *testing.T, b *bench) {
	made := b.make(t, "partners")
	if err := b.DeleteClientCA(t.Context(), account, made.ID); err != nil {
		t.Fatal(err)
	}
	_, err := b.GetClientCA(t.Context(), account, made.ID)
	storetest.WantNotFound(t, "get", err)
	storetest.WantNotFound(t, "again", b.DeleteClientCA(t.Context(), account, made.ID))
	if list, total, err := b.ListClientCAs(t.Context(), account, store.Page{Limit: 10}); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("%v, %d, %v", list, total, err)
	}
}

func testServed(t *testing.T, b *bench) {
	one := b.make(t, "one")
	two := b.make(t, "two")
	all, version, err := b.ServedClientCAs(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "all", []clientcas.ServedCA{{ID: one.ID, Account: account, Certificate: one.Certificate}, {ID: two.ID, Account: account, Certificate: two.Certificate}}, all)
	if changed, same, err := b.ServedClientCAs(t.Context(), version); err != nil || same != version || len(changed) != 0 {
		t.Errorf("without a change: %v, %d, %v", changed, same, err)
	}
	if err := b.DeleteClientCA(t.Context(), account, one.ID); err != nil {
		t.Fatal(err)
	}
	changed, later, err := b.ServedClientCAs(t.Context(), version)
	if err != nil || later <= version {
		t.Fatalf("version %d after %d, %v", later, version, err)
	}
	want(t, "changed", []clientcas.ServedCA{{ID: one.ID, Account: account, Certificate: one.Certificate, Removed: true}}, changed)
	if all, _, err := b.ServedClientCAs(t.Context(), 0); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

func testPurge(t *testing.T, b *bench) {
	made := b.make(t, "one")
	b.make(t, "two")
	if err := b.DeleteClientCA(t.Context(), account, made.ID); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{23 * time.Hour, 2}, {2 * time.Hour, 1}} {
		b.Clock.Advance(step.after)
		if err := b.PurgeClientCAs(t.Context(), b.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		var left int
		if err := b.DB.Reading(t.Context()).Raw("SELECT count(*) FROM gateway_client_cas").Scan(&left).Error; err != nil || left != step.left {
			t.Errorf("%d rows are left, want %d, %v", left, step.left, err)
		}
	}
}

func testExpiring(t *testing.T, b *bench) {
	now := storetest.Noon()
	add := func(name string, ends time.Time) domain.ClientCA {
		made, err := b.CreateClientCA(t.Context(), account, name, []byte(name), ends)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	later := add("later", now.Add(10*24*time.Hour))
	ended := add("ended", now.Add(-time.Hour))
	add("far", now.Add(15*24*time.Hour))
	gone := add("gone", now.Add(time.Hour))
	if err := b.DeleteClientCA(t.Context(), account, gone.ID); err != nil {
		t.Fatal(err)
	}
	found, err := b.ExpiringClientCAs(t.Context(), account, now, 10)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "found", []domain.Expiry{
		{Kind: domain.ExpiryClientCA, At: now.Add(-time.Hour), Key: ended.ID, Name: "ended"},
		{Kind: domain.ExpiryClientCA, At: now.Add(10 * 24 * time.Hour), Key: later.ID, Name: "later"},
	}, found)
	if found, err := b.ExpiringClientCAs(t.Context(), account, now, 1); err != nil || len(found) != 1 {
		t.Errorf("at most one: %v, %v", found, err)
	}
	if found, err := b.ExpiringClientCAs(t.Context(), "other", now, 10); err != nil || len(found) != 0 {
		t.Errorf("of another account: %v, %v", found, err)
	}
	count, err := b.CountExpiringClientCAs(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "counted", domain.ExpiryCount{Kind: domain.ExpiryClientCA, N: 2, Soonest: now.Add(-time.Hour)}, count)
}

func testAudit(t *testing.T, b *bench) {
	ctx := auditlog.WithCaller(t.Context(), pipelinetest.Caller())
	made, err := b.CreateClientCA(ctx, account, "one", []byte("DER"), ends)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.RenameClientCA(ctx, account, made.ID, "two"); err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteClientCA(ctx, account, made.ID); err != nil {
		t.Fatal(err)
	}
	var actions []string
	err = b.DB.Reading(t.Context()).Raw("SELECT action FROM audit_log WHERE resources LIKE ? ORDER BY id", "%"+made.ID+"%").Scan(&actions).Error
	if err != nil {
		t.Fatal(err)
	}
	want(t, "actions", []string{auditlog.ActionCreateClientCA, auditlog.ActionUpdateClientCA, auditlog.ActionDeleteClientCA}, actions)
}

func testPages(t *testing.T, b *bench) {
	for i := range 5 {
		b.make(t, fmt.Sprint("ca_", i))
		b.Clock.Advance(time.Second)
	}
	list, total, err := b.ListClientCAs(t.Context(), account, store.Page{Limit: 2, Offset: 3})
	if err != nil || total != 5 || len(list) != 2 || list[0].Name != "ca_3" || list[1].Name != "ca_4" {
		t.Errorf("%v, %d, %v", list, total, err)
	}
}
