package follow_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/gateway/internal/follow"
)

// list is a list of the database: its version, and what it was asked for.
type list struct {
	version int64
	asked   []int64
	err     error
}

func (l *list) read(_ context.Context, since int64) ([]string, int64, error) {
	l.asked = append(l.asked, since)
	return []string{"change"}, l.version, l.err
}

// A list is read whole at first, when the database came from a backup, and after twelve hours without the database; in
// between only what has changed. What fails changes nothing.
func TestRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var place follow.Place
		l := &list{version: 5}
		reads := func(what string, all bool, asked ...int64) {
			t.Helper()
			l.asked = nil
			changes, got, err := follow.Read(t.Context(), &place, l.read)
			if !errors.Is(err, l.err) || got != all || len(changes) != 1 || len(l.asked) != len(asked) || l.asked[0] != asked[0] || l.asked[len(asked)-1] != asked[len(asked)-1] {
				t.Errorf("%s: all %v, asked since %v, %v", what, got, l.asked, err)
			}
		}
		l.err = errors.New("the database is away")
		reads("a first failure", false, 0)
		if l.err = nil; place.At(0) {
			t.Error("a list that was never read is up to date")
		}
		reads("the first time", true, 0)
		if !place.At(5) || place.At(6) || place.Version() != 5 {
			t.Errorf("it is at %d", place.Version())
		}
		l.version = 7
		reads("changes", false, 5)
		l.version = 3
		reads("a backup", true, 7, 0)
		<-time.After(11 * time.Hour)
		if !place.At(3) {
			t.Error("nothing has changed")
		}
		<-time.After(11 * time.Hour)
		reads("a second look in time", false, 3)
		<-time.After(12 * time.Hour)
		if place.At(3) {
			t.Error("what was removed meanwhile may be forgotten")
		}
		reads("after a long time", true, 0)
	})
}
