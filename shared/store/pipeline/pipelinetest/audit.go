package pipelinetest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// Caller returns the caller of changes in tests.
func Caller() domain.Caller {
	return domain.Caller{
		Account: Account, Sub: "bucket/consumer", Type: "key", KeyID: "key_1", RequestID: "req-1", Address: "192.0.2.1",
		UserAgent: "test/1", Method: "POST", Route: "/v1/some/{thing}",
	}
}

// Audits returns the entries that a filter selects, those of Account unless the filter names another one.
func (b *Bench) Audits(t *testing.T, f auditlog.AuditFilter) []domain.AuditEntry {
	t.Helper()
	if f.Account == "" {
		f.Account = Account
	}
	f.Page = store.Page{Limit: 1000}
	entries, total, err := b.ListAudit(t.Context(), f)
	if err != nil || total != len(entries) {
		t.Fatalf("list audit: %d of %d, %v", len(entries), total, err)
	}
	return entries
}

// Told returns a short form of the one entry that was added after the first n.
func (b *Bench) Told(t *testing.T, n int) string {
	t.Helper()
	entries := b.Audits(t, auditlog.AuditFilter{})
	if len(entries) != n+1 {
		t.Fatalf("%d entries, want %d", len(entries), n+1)
	}
	e := entries[0]
	if diff := cmp.Diff(Caller(), e.Caller, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Route" }, cmp.Ignore())); diff != "" || !e.Success || e.Error != "" {
		t.Errorf("%s: %+v (-want +got):\n%s", e.Action, e, diff)
	}
	texts := []string{e.Action}
	for _, r := range e.Resources {
		texts = append(texts, r.Type+":"+r.ID)
	}
	return strings.Join(texts, " ")
}
