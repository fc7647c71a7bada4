package auditlog_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

// Entries of their own, which are of refusals.
func auditTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"keeps every field":           testAuditFields,
		"lists newest first in pages": testAuditList,
		"filters":                     testAuditFilter,
		"counts refusals of a minute": testAuditCounts,
		"has totals of days":          testAuditDays,
	}
}

func testAuditFields(t *testing.T, b *bench) {
	want := domain.AuditEntry{
		Account: account, Action: "delete-bucket", Caller: pipelinetest.Caller(), Error: "FORBIDDEN",
		Resources: []domain.Resource{{Type: "bucket", Name: "größer ☃"}, {Type: "key", ID: "key_1"}},
	}
	if err := b.Audit(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(time.Minute)
	bare := domain.AuditEntry{Account: account, At: noon.Add(time.Hour), Success: true, Caller: domain.Caller{Account: account}}
	if err := b.Audit(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	got := b.Audits(t, auditlog.AuditFilter{})
	if len(got) != 2 || got[0].ID == got[1].ID {
		t.Fatalf("%+v", got)
	}
	want.At, want.ID, bare.ID = noon, got[1].ID, got[0].ID
	want.Count, bare.Count = 1, 1
	if diff := cmp.Diff([]domain.AuditEntry{bare, want}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func testAuditList(t *testing.T, b *bench) {
	var want []string
	for i := range 7 {
		e := domain.AuditEntry{Account: account, Action: strconv.Itoa(i), Caller: pipelinetest.Caller(), Success: true}
		if err := b.Audit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		want = append([]string{e.Action}, want...)
		if i%3 == 2 {
			b.Clock.Advance(time.Millisecond)
		}
	}
	var got []string
	for offset := 0; offset < 9; offset += 3 {
		page, total, err := b.ListAudit(t.Context(), auditlog.AuditFilter{Account: account, Page: store.Page{Limit: 3, Offset: offset}})
		if err != nil || total != 7 {
			t.Fatalf("%d, %v", total, err)
		}
		for _, e := range page {
			got = append(got, e.Action)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func testAuditFilter(t *testing.T, b *bench) {
	for i := range 8 {
		who := pipelinetest.Caller()
		who.Sub = fmt.Sprint("sub-", i%2)
		name := account
		if i == 7 {
			name = "other"
		}
		e := domain.AuditEntry{Account: name, Action: fmt.Sprint("action-", i%3), Caller: who, Success: i%4 == 0, At: noon.Add(time.Duration(i) * time.Minute)}
		if err := b.Audit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	yes, no := true, false
	for _, test := range []struct {
		filter auditlog.AuditFilter
		want   []int // minutes
	}{
		{auditlog.AuditFilter{}, []int{6, 5, 4, 3, 2, 1, 0}},
		{auditlog.AuditFilter{Account: "other"}, []int{7}},
		{auditlog.AuditFilter{Account: "nobody"}, nil},
		{auditlog.AuditFilter{Action: "action-1"}, []int{4, 1}},
		{auditlog.AuditFilter{Action: "action"}, nil},
		{auditlog.AuditFilter{Actor: "sub-1"}, []int{5, 3, 1}},
		{auditlog.AuditFilter{Success: &yes}, []int{4, 0}},
		{auditlog.AuditFilter{Success: &no}, []int{6, 5, 3, 2, 1}},
		{auditlog.AuditFilter{Since: noon.Add(5 * time.Minute)}, []int{6, 5}},
		{auditlog.AuditFilter{Until: noon.Add(2 * time.Minute)}, []int{1, 0}},
		{auditlog.AuditFilter{Since: noon.Add(time.Minute), Until: noon.Add(4 * time.Minute), Actor: "sub-1", Success: &no, Action: "action-0"}, []int{3}},
		{auditlog.AuditFilter{Since: noon.Add(time.Hour)}, nil},
	} {
		var got []int
		for _, e := range b.Audits(t, test.filter) {
			got = append(got, int(e.At.Sub(noon).Minutes()))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.filter, diff)
		}
	}
}

// testAuditCounts has several processes write the same refusals, and others beside them.
func testAuditCounts(t *testing.T, b *bench) {
	refused := domain.AuditEntry{Account: account, Action: "create-key", Caller: pipelinetest.Caller(), Error: "FORBIDDEN"}
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			e := refused
			e.Caller.RequestID, e.Count = strconv.Itoa(i), 3
			if err := b.Audit(t.Context(), e, refused); err != nil { // 3 and 1
				t.Error(err)
			}
		})
	}
	writers.Wait()
	other := func(change func(e *domain.AuditEntry)) domain.AuditEntry {
		e := refused
		change(&e)
		return e
	}
	for _, e := range []domain.AuditEntry{
		other(func(e *domain.AuditEntry) { e.Account = "other" }),
		other(func(e *domain.AuditEntry) { e.Action = "delete-key" }),
		other(func(e *domain.AuditEntry) { e.Error = "NOT_FOUND" }),
		other(func(e *domain.AuditEntry) { e.Caller.Sub = "bucket/another" }),
		other(func(e *domain.AuditEntry) { e.Caller.KeyID = "key_2" }),
		other(func(e *domain.AuditEntry) { e.At = noon.Add(time.Minute) }),
		other(func(e *domain.AuditEntry) { e.Success, e.Error = true, "" }),
		other(func(e *domain.AuditEntry) { e.Success, e.Error = true, "" }),
	} {
		if err := b.Audit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[int]int{}
	for _, e := range append(b.Audits(t, auditlog.AuditFilter{}), b.Audits(t, auditlog.AuditFilter{Account: "other"})...) {
		counts[e.Count]++
		if e.Count > 1 && (!e.At.Equal(noon) || e.Action != "create-key" || e.Error != "FORBIDDEN" || e.Success) {
			t.Errorf("the entry that counts is %+v", e)
		}
	}
	if diff := cmp.Diff(map[int]int{32: 1, 1: 8}, counts); diff != "" {
		t.Errorf("entries by count (-want +got):\n%s", diff)
	}
}

// testAuditDays compares totals with lists, of times that begin and end within days, before and after entries are counted.
func testAuditDays(t *testing.T, b *bench) {
	log := auditlog.New(b.DB)
	begin := noon.AddDate(0, 0, -3)
	fill := func() {
		for i := range 60 {
			who := pipelinetest.Caller()
			who.Sub = fmt.Sprint("sub-", i%2)
			e := domain.AuditEntry{Account: account, Action: fmt.Sprint("action-", i%3), Caller: who, Success: i%4 == 0, At: begin.Add(time.Duration(i) * time.Hour), Error: strconv.Itoa(b.Next())}
			if err := b.Audit(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			begin = begin.Add(time.Millisecond)
		}
	}
	midnight := noon.Add(-12 * time.Hour)
	yes := true
	compare := func() {
		t.Helper()
		for _, since := range []time.Time{{}, begin, midnight.AddDate(0, 0, -2), midnight.Add(-30 * time.Hour), midnight.Add(time.Hour)} {
			for _, until := range []time.Time{{}, midnight.AddDate(0, 0, -1), midnight.Add(-20 * time.Hour), midnight.Add(3 * time.Hour), noon} {
				for _, f := range []auditlog.AuditFilter{{}, {Action: "action-1"}, {Actor: "sub-1"}, {Success: &yes}, {Action: "action-2", Actor: "sub-0", Success: &yes}} {
					f.Since, f.Until = since, until
					b.Audits(t, f) // it compares
				}
			}
		}
	}
	purge := func(now time.Time) {
		t.Helper()
		if err := log.Purge(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	compare()
	purge(noon)
	compare()
	fill() // not counted, beside those that are
	compare()
	purge(noon)
	purge(noon)
	compare()

	// A list of whole days is told by them how many entries it has.
	total := func() int {
		t.Helper()
		_, n, err := b.ListAudit(t.Context(), auditlog.AuditFilter{Account: account, Page: store.Page{Limit: 1}})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if total() != 120 {
		t.Errorf("total %d, want 120", total())
	}
	add := func(n int) {
		t.Helper()
		if err := b.DB.Writing(t.Context()).Exec("UPDATE audit_days SET entries = entries + ? WHERE action = 'action-1' AND sub = 'sub-1' AND NOT success", n).Error; err != nil {
			t.Fatal(err)
		}
	}
	add(100)
	if n := total(); n <= 120 || n%100 != 20 {
		t.Errorf("total %d: entries were counted anew", n)
	}
	add(-100)
	purge(midnight.Add(-30 * time.Hour).Add(domain.AuditRetention)) // ends within a day
	compare()
	if n := total(); n == 0 || n >= 120 {
		t.Errorf("total %d after some of 120 have ended", n)
	}
	purge(noon.AddDate(0, 0, 3).Add(domain.AuditRetention))
	if n := total(); n != 0 {
		t.Errorf("total %d after all have ended", n)
	}
}
