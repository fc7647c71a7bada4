package access_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/storetest"
)

func managedTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"counts who has accepted":              testInvitation,
		"removes who declines":                 testDecline,
		"knows a person by sub or email":       testPerson,
		"lists accounts, however many of each": testManagedAccounts,
		"searches and pages":                   testManagedPages,
		"bounds how often a person is named":   testManagedBound,
	}
}

var ada = access.Person{Sub: "idp|ada", Email: "Ada@example.com"}

// invite has a consumer of an account invite somebody.
func (b *bench) invite(t *testing.T, ref access.ConsumerRef, email, sub string) domain.Manager {
	t.Helper()
	ctx := auditlog.WithCaller(t.Context(), domain.Caller{Account: ref.Account, Sub: "partners/acme", Type: "key"})
	m, err := b.CreateManager(ctx, ref, domain.Manager{Email: email, Sub: sub})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func all100() access.ManagedFilter { return access.ManagedFilter{Limit: 100} }

func (b *bench) managedAccounts(t *testing.T, who access.Person, f access.ManagedFilter) []access.ManagedAccount {
	t.Helper()
	list, err := b.ManagedAccounts(t.Context(), who, f)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func testInvitation(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 0)
	m := b.invite(t, consumerRef(c), "ada@example.com", "idp|ada")
	if !m.AcceptedOn.IsZero() {
		t.Errorf("who is invited has accepted on %s", m.AcceptedOn)
	}
	invited := access.Managed{ManagerID: m.ID, Account: account, Bucket: c.Bucket, Consumer: c.Name, Invited: true, InvitedBy: "partners/acme", InvitedOn: noon}
	if got, err := b.FindManaged(t.Context(), ada, m.ID); err != nil || got != invited {
		t.Errorf("%+v, %v", got, err)
	}
	want := []access.ManagedAccount{{Account: account, Invitations: 1}}
	if diff := cmp.Diff(want, b.managedAccounts(t, ada, all100())); diff != "" {
		t.Errorf("invited (-want +got):\n%s", diff)
	}
	s := b.session(t, access.Session{Account: account, ManagerID: m.ID}, nil)
	_, _, err := b.FindSession(t.Context(), s.Hash)
	storetest.WantNotFound(t, "a session of who is only invited", err)

	for name, who := range map[string]access.Person{"another": {Sub: "idp|grace", Email: "grace@example.com"}, "nobody": {}, "\x00": {Sub: "\x00", Email: "\xff"}} {
		storetest.WantNotFound(t, name+" accepts", b.AcceptInvitation(t.Context(), who, m.ID))
		storetest.WantNotFound(t, name+" declines", b.DeclineInvitation(t.Context(), who, m.ID))
		_, err := b.FindManaged(t.Context(), who, m.ID)
		storetest.WantNotFound(t, name+" looks", err)
	}
	b.Clock.Advance(time.Minute)
	ctx := auditlog.WithCaller(t.Context(), domain.Caller{Account: account, Sub: c.Bucket + "/" + c.Name, Type: "manager", KeyID: m.ID})
	if err := b.AcceptInvitation(ctx, ada, m.ID); err != nil {
		t.Fatal(err)
	}
	storetest.WantNotFound(t, "accept again", b.AcceptInvitation(t.Context(), ada, m.ID))
	storetest.WantNotFound(t, "decline what was accepted", b.DeclineInvitation(t.Context(), ada, m.ID))
	if got, err := b.GetManager(t.Context(), consumerRef(c), m.ID); err != nil || !got.AcceptedOn.Equal(noon.Add(time.Minute)) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, holder, err := b.FindSession(t.Context(), s.Hash); err != nil || holder.Consumer != c.Name || holder.KeyID != "" {
		t.Errorf("%+v, %v", holder, err)
	}
	only := access.Managed{ManagerID: m.ID, Account: account, Bucket: c.Bucket, Consumer: c.Name}
	if diff := cmp.Diff([]access.ManagedAccount{{Account: account, Consumers: 1, Only: &only}}, b.managedAccounts(t, ada, all100())); diff != "" {
		t.Errorf("accepted (-want +got):\n%s", diff)
	}
	entries, _, err := b.ListAudit(t.Context(), auditlog.AuditFilter{Account: account, Action: auditlog.ActionAcceptInvitation, Page: store.Page{Limit: 10}})
	if err != nil || len(entries) != 1 || entries[0].Caller.KeyID != m.ID || len(entries[0].Resources) != 3 || entries[0].Resources[2].ID != m.ID {
		t.Errorf("the audit log has %+v, %v", entries, err)
	}
	if err := b.DeleteManager(t.Context(), consumerRef(c), m.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = b.FindSession(t.Context(), s.Hash)
	storetest.WantNotFound(t, "the manager is gone", err)
}

// One answer is for all that invites a person to a consumer, and for nothing else.
func testDecline(t *testing.T, b *bench) {
	c, other := b.consumer(t, b.bucket(t), 0), b.consumer(t, b.bucket(t), 0)
	first := b.invite(t, consumerRef(c), "ADA@example.com", "x")
	b.invite(t, consumerRef(c), "a@example.com", "idp|ada")
	grace := b.invite(t, consumerRef(c), "grace@example.com", "idp|grace")
	elsewhere := b.invite(t, consumerRef(other), "ada@example.com", "idp|ada")
	if err := b.DeclineInvitation(t.Context(), ada, first.ID); err != nil {
		t.Fatal(err)
	}
	left, _, err := b.ListManagers(t.Context(), consumerRef(c), all())
	if err != nil || len(left) != 1 || left[0].ID != grace.ID {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err := b.FindManaged(t.Context(), ada, elsewhere.ID); err != nil {
		t.Errorf("the other invitation: %v", err)
	}
}

func testPerson(t *testing.T, b *bench) {
	first, second := b.consumer(t, b.bucket(t), 0), b.consumer(t, b.bucket(t), 0)
	b.invite(t, consumerRef(first), "Ada@Example.com", "idp|ada")
	b.invite(t, consumerRef(second), "kate@example.com", "idp|kate")
	b.invite(t, consumerRef(second), "\u212Aim@example.com", "idp|kim")
	for _, tc := range []struct {
		sub, email string
		want       int
	}{
		{"idp|ada", "", 1}, {"x", "ada@EXAMPLE.com", 1}, {"idp|ada", "KATE@example.com", 2}, {"", "", 0}, {"x", "", 0}, {"", "nobody@example.com", 0}, {"\x00", "\xff", 0},
		// U+212A, the sign for kelvin, is no k: it is in other people's addresses.
		{"x", "\u212Aate@example.com", 0}, {"x", "kim@example.com", 0}, {"x", "\u212Aim@EXAMPLE.com", 1},
	} {
		found := 0
		for _, a := range b.managedAccounts(t, access.Person{Sub: tc.sub, Email: tc.email}, all100()) {
			found += a.Invitations
		}
		if found != tc.want {
			t.Errorf("%q, %q: %d consumers, want %d", tc.sub, tc.email, found, tc.want)
		}
	}
	list, _, err := b.ListConsumers(t.Context(), account, second.Bucket, access.ConsumerFilter{ManagerEmail: "\u212Aim@example.com", Page: all()}, access.Parts{})
	if err != nil || len(list) != 1 {
		t.Errorf("by the manager's address: %+v, %v", list, err)
	}
}

// However many consumers one account has for a person, the others have their place.
func testManagedAccounts(t *testing.T, b *bench) {
	if _, _, err := b.CreateAccount(t.Context(), "globex", b.apiKey()); err != nil {
		t.Fatal(err)
	}
	many := b.bucket(t)
	for range 105 {
		b.invite(t, consumerRef(b.consumer(t, many, 0)), "ada@example.com", "idp|ada")
	}
	bucket, err := b.CreateBucket(t.Context(), domain.Bucket{Account: "globex", Name: "globex-bucket"})
	if err != nil {
		t.Fatal(err)
	}
	own := b.consumer(t, bucket, 0)
	m := b.invite(t, consumerRef(own), "ada@example.com", "")
	if err := b.AcceptInvitation(t.Context(), ada, m.ID); err != nil {
		t.Fatal(err)
	}
	want := []access.ManagedAccount{
		{Account: "globex", Consumers: 1, Only: &access.Managed{ManagerID: m.ID, Account: "globex", Bucket: bucket.Name, Consumer: own.Name}},
		{Account: account, Invitations: 105},
	}
	if diff := cmp.Diff(want, b.managedAccounts(t, ada, all100())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What one account names a person for is bounded, and takes nothing from other accounts and other people.
func testManagedBound(t *testing.T, b *bench) {
	if _, _, err := b.CreateAccount(t.Context(), "globex", b.apiKey()); err != nil {
		t.Fatal(err)
	}
	var managers []domain.Manager
	for i := range domain.MaxManaged - 1 {
		managers = append(managers, domain.Manager{Email: fmt.Sprintf("%d@example.com", i), Sub: "idp|ada"})
	}
	bucket := b.bucket(t)
	full := domain.Consumer{Account: account, Bucket: bucket.Name, Name: "full"}
	if _, err := b.CreateConsumer(t.Context(), full, managers, nil); err != nil {
		t.Fatal(err)
	}
	c := b.consumer(t, bucket, 0)
	b.invite(t, consumerRef(c), "ADA@example.com", "idp|ada")
	for _, m := range []domain.Manager{{Email: "other@example.com", Sub: "idp|ada"}, {Email: "7@example.com", Sub: "idp|ada"}} {
		if _, err := b.CreateManager(t.Context(), consumerRef(c), m); !errors.Is(err, domain.ErrLimit) {
			t.Errorf("%+v: %v", m, err)
		}
		full.Name = "fuller"
		if _, err := b.CreateConsumer(t.Context(), full, []domain.Manager{m}, nil); !errors.Is(err, domain.ErrLimit) {
			t.Errorf("a consumer with %+v: %v", m, err)
		}
	}
	b.invite(t, consumerRef(c), "grace@example.com", "idp|grace")
	elsewhere, err := b.CreateBucket(t.Context(), domain.Bucket{Account: "globex", Name: "globex-bucket"})
	if err != nil {
		t.Fatal(err)
	}
	b.invite(t, consumerRef(b.consumer(t, elsewhere, 0)), "ada@example.com", "idp|ada")
}

func testManagedPages(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	names := map[string]bool{}
	for i := range 7 {
		c := b.consumer(t, bucket, 0, func(c *domain.Consumer) { c.Name = fmt.Sprintf("c-%d", i) })
		m := b.invite(t, consumerRef(c), "ada@example.com", "")
		names[c.Name] = i%2 == 0
		if i%2 == 0 {
			if err := b.AcceptInvitation(t.Context(), ada, m.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	f := access.ManagedFilter{Limit: 2}
	for {
		page, err := b.ManagedConsumers(t.Context(), ada, account, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			got = append(got, m.Consumer)
			if m.Invited == names[m.Consumer] {
				t.Errorf("%s is an invitation: %t", m.Consumer, m.Invited)
			}
		}
		if len(page) < f.Limit {
			break
		}
		f.After = page[len(page)-1].Cursor()
	}
	if diff := cmp.Diff([]string{"c-0", "c-2", "c-4", "c-6", "c-1", "c-3", "c-5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for search, want := range map[string]int{"C-3": 1, "c-": 7, bucket.Name[1:]: 7, account: 7, "%": 0, "c_3": 0, "!": 0, "nothing": 0} {
		f := access.ManagedFilter{Search: search, Limit: 100}
		list, err := b.ManagedConsumers(t.Context(), ada, account, f)
		accounts := b.managedAccounts(t, ada, f)
		if err != nil || len(list) != want || (len(accounts) == 1) != (want > 0) {
			t.Errorf("%q: %+v, %+v, %v", search, list, accounts, err)
		}
	}
	for _, who := range []func(context.Context) (int, error){
		func(ctx context.Context) (int, error) {
			list, err := b.ManagedConsumers(ctx, access.Person{Sub: "idp|ada"}, account, all100())
			return len(list), err
		},
		func(ctx context.Context) (int, error) {
			list, err := b.ManagedConsumers(ctx, ada, "globex", all100())
			return len(list), err
		},
	} {
		if n, err := who(t.Context()); n != 0 || err != nil {
			t.Errorf("of another person or account: %d, %v", n, err)
		}
	}
	first := b.managedAccounts(t, ada, access.ManagedFilter{Limit: 1})
	if rest := b.managedAccounts(t, ada, access.ManagedFilter{Limit: 1, After: first[0].Cursor()}); len(rest) != 0 {
		t.Errorf("after the last account: %+v", rest)
	}
}
