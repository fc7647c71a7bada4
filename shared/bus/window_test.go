package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

var errLate = fmt.Errorf("publish: %w", jetstream.ErrAsyncPublishTimeout)

// shore is where what a window lets through waits for its end.
type shore struct {
	window *window
	log    strings.Builder
	out    []int // in the order in which they went out
	undone []int // given up before they went out
	began  int
}

func newShore() *shore {
	s := &shore{}
	s.window = newWindow("HOLD", slog.New(slog.NewTextHandler(&s.log, nil)))
	return s
}

// send has so many more enter, each of which goes out when it may.
func (s *shore) send(n int) {
	for range n {
		number := s.began
		s.began++
		s.window.enter(
			func() { s.out = append(s.out, number) },
			func(error) { s.undone = append(s.undone, number) },
		)
	}
	synctest.Wait()
}

// end ends the first n that are out, and returns how many are out then.
func (s *shore) end(n int, err error) int {
	for range n {
		s.out = s.out[1:]
		s.window.leave(err)
		synctest.Wait()
	}
	return len(s.out)
}

func TestFewTasksAreSentAtOnceToAStreamThatIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShore()
		s.send(windowMost + 1000)
		if len(s.out) != windowMost {
			t.Fatalf("%d are out, want %d", len(s.out), windowMost)
		}
		s.end(1, nil)
		if out := s.end(windowMost-windowLeast, errLate); out != windowLeast {
			t.Fatalf("%d are out after the others were late, want %d", out, windowLeast)
		}
		if out := s.end(1, errors.New("disconnected")); out != windowLeast {
			t.Errorf("%d are out after one could not be sent, want %d", out, windowLeast)
		}
		if out := s.end(100, nil); out != windowLeast+100 {
			t.Errorf("%d are out after 100 acknowledgements, want %d", out, windowLeast+100)
		}
		for len(s.out) > 0 {
			if s.out[0] > 0 && len(s.out) > 1 && s.out[1] != s.out[0]+1 {
				t.Fatalf("%d went out after %d", s.out[1], s.out[0])
			}
			s.end(1, nil)
		}
		if s.window.out != 0 || len(s.window.waiting) != 0 || len(s.undone) != 0 {
			t.Errorf("in the end %d are out, %d wait and %d were given up", s.window.out, len(s.window.waiting), len(s.undone))
		}
		if strings.Count(s.log.String(), "level=WARN") != 1 || strings.Contains(s.log.String(), "in time again") {
			t.Errorf("the log does not say once that it is late:\n%s", &s.log)
		}
		s.send(windowMost)
		s.end(windowMost, nil)
		if strings.Count(s.log.String(), "in time again") != 1 {
			t.Errorf("the log does not say that it is over:\n%s", &s.log)
		}
	})
}

func TestWhatWaitsForASilentStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShore()
		s.send(windowMost + 3)
		<-time.After(publishTimeout)
		if out := s.end(1, errLate); out != windowMost-1 || len(s.undone) != 3 {
			t.Fatalf("%d are out and %v were given up when the stream had been silent, want %d and 3", out, s.undone, windowMost-1)
		}
		if out := s.end(windowMost-1, errLate); out != 0 {
			t.Fatalf("%d are out in the end", out)
		}
		s.send(windowLeast + 3)
		<-time.After(publishTimeout - 1)
		s.end(1, nil)
		<-time.After(1)
		if out := s.end(windowLeast-1, errLate); out != 3 || len(s.undone) != 3 {
			t.Errorf("%d are out and %v were given up when the stream had acknowledged one, want 3 and what was before", out, s.undone)
		}
	})
}

func TestWhatCannotBeSentDoesNotHoldUpAStream(t *testing.T) {
	t.Parallel()
	w := newWindow("HOLD", slog.New(slog.DiscardHandler))
	var ended sync.WaitGroup
	for range 4 {
		ended.Go(func() {
			for range 20_000 {
				ended.Add(1)
				// Without a connection a publication ends before it has begun.
				w.enter(func() {
					w.leave(errors.New("disconnected"))
					ended.Done()
				}, func(error) { t.Error("one was given up") })
			}
		})
	}
	ended.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out != 0 || len(w.waiting) != 0 {
		t.Errorf("in the end %d are out and %d wait", w.out, len(w.waiting))
	}
}
