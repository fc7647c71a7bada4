package deployments

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/shared/problem"
)

// Sixty uploads go within any minute, and the next one as soon as the first is a minute old.
func TestUploadsOfAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUploads()
		take := func(account, part string) error { return u.take(uploadOf{account, part}, time.Now()) }
		for n := range maxUploads {
			if err := take("default", started); err != nil {
				t.Fatalf("upload %d: %v", n, err)
			}
			<-time.After(500 * time.Millisecond)
		}
		for range 3 { // what is refused here does not count
			var p *problem.Problem
			if err := take("default", started); !errors.As(err, &p) || p.Code != problem.RateLimited || p.RetryAfter != 30*time.Second {
				t.Errorf("one more: %v, %v", err, p)
			}
		}
		for _, other := range []uploadOf{{"second", started}, {"default", archived}} {
			if err := take(other.account, other.part); err != nil {
				t.Errorf("%v: %v", other, err)
			}
		}
		<-time.After(30 * time.Second)
		if err := take("default", started); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		if err := take("default", started); err == nil {
			t.Error("one more than there was room for")
		}
		<-time.After(500 * time.Millisecond)
		if err := take("default", started); err != nil {
			t.Errorf("after the second one's minute: %v", err)
		}
	})
}

// A URL is good for its time, and is known by every key of the ring, of which the first signs.
func TestSigning(t *testing.T) {
	t.Parallel()
	old, fresh := []byte("old"), []byte("fresh")
	before, during, after := &handlers{}, &handlers{}, &handlers{}
	before.Signing, during.Signing, after.Signing = [][]byte{old}, [][]byte{fresh, old}, [][]byte{fresh}
	now := time.Unix(1_800_000_000, 0)
	signed := func(h *handlers) (id, expires, signature string) {
		path, query, _ := strings.Cut(h.sign("some-id", now.Add(15*time.Minute)), "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(path, uploadsPath+"/"), values.Get("expires"), values.Get("signature")
	}
	id, expires, signature := signed(before)
	for _, row := range []struct {
		by   *handlers
		at   time.Duration
		want error
	}{
		{before, 0, nil}, {before, 15*time.Minute - time.Second, nil}, {before, 15 * time.Minute, errLate}, {before, time.Hour, errLate},
		{during, 0, nil}, {after, 0, errAltered}, {after, time.Hour, errAltered},
	} {
		err := row.by.verify(id, expires, signature, now.Add(row.at))
		if row.want == nil && err != nil || row.want != nil && !errors.Is(err, row.want) {
			t.Errorf("after %v: %v, want %v", row.at, err, row.want)
		}
	}
	if id, expires, signature := signed(during); after.verify(id, expires, signature, now) != nil || before.verify(id, expires, signature, now) == nil {
		t.Error("the first key does not sign")
	}
}
