package acme

import (
	"context"
	"slices"
	"testing"
	"time"

	"waybill.dev/shared/store/domains"
)

// changes are domains by the version at which they changed, and hostnames whose certificates end.
type changes struct {
	Store

	of     []domains.ServedDomain
	ending []string
	asked  []int64
}

func (c *changes) ServedDomains(_ context.Context, since int64) ([]domains.ServedDomain, int64, error) {
	c.asked = append(c.asked, since)
	return c.of[since:], int64(len(c.of)), nil
}

func (c *changes) CertificatesThatEnd(context.Context, time.Time) ([]string, error) {
	return c.ending, nil
}

func TestLacking(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(90 * 24 * time.Hour)
	store := &changes{of: []domains.ServedDomain{
		{Hostname: "new"}, {Hostname: "has", ValidTo: later}, {Hostname: "uploaded", Uploaded: "print"}, {Hostname: "moved", Removed: true}, {Hostname: "moved"},
	}}
	var l lacking
	want := func(doing string, names ...string) {
		t.Helper()
		got, err := l.list(t.Context(), store)
		if err != nil || !slices.Equal(got, names) {
			t.Errorf("%s: %q, %v, want %q", doing, got, err, names)
		}
	}
	want("at first", "moved", "new")
	want("nothing has changed", "moved", "new")
	l.remove("new")
	want("one was found", "moved")
	store.ending = []string{"has", "moved"}
	want("one ends", "has", "moved")
	store.of = append(store.of, domains.ServedDomain{Hostname: "moved", Removed: true}, domains.ServedDomain{Hostname: "uploaded"})
	store.ending = nil
	want("one went, and the certificate of another", "uploaded")
	if !slices.Equal(store.asked, []int64{0, 5, 5, 5, 5}) {
		t.Errorf("asked since %d: all are to be read once", store.asked)
	}
}
