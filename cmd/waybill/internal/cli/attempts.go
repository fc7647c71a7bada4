package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/units"
)

// perSecond is how many attempts get a line of their own in a second. The others are counted.
const perSecond = 20

// teller writes a line for each attempt of `waybill dev`. Attempts that it can't write in time are
// counted, so that deliveries never wait for a terminal.
type teller struct {
	*app

	made    chan dispatcher.MadeAttempt
	missed  atomic.Int64
	failed  atomic.Int64 // failed ones among the missed
	written int          // in the current second
}

func newTeller(a *app) *teller {
	return &teller{app: a, made: make(chan dispatcher.MadeAttempt, perSecond)}
}

// watch queues an attempt; it does not block.
func (t *teller) watch(m dispatcher.MadeAttempt) {
	select {
	case t.made <- m:
	default:
		t.miss(m)
	}
}

func (t *teller) miss(m dispatcher.MadeAttempt) {
	t.missed.Add(1)
	if m.Status != domain.StatusDelivered {
		t.failed.Add(1)
	}
}

// start starts the writing; stop ends it.
func (t *teller) start() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for {
			select {
			case m := <-t.made:
				t.tell(m)
			case <-second.C:
				t.fold()
			case <-done:
				for len(t.made) > 0 {
					t.tell(<-t.made)
				}
				t.fold()
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// fold ends a second: it writes the number of attempts without a line.
func (t *teller) fold() {
	t.written = 0
	if missed, failed := t.missed.Swap(0), t.failed.Swap(0); missed > 0 {
		fmt.Fprintf(t.stdout, "%s … and %d more in a second, %d of them not delivered\n", time.Now().Format("15:04:05"), missed, failed)
	}
}

func (t *teller) tell(m dispatcher.MadeAttempt) {
	t.written++
	if t.written > perSecond {
		t.miss(m)
		return
	}
	style := t.style()
	host := m.URL
	if u, err := url.Parse(m.URL); err == nil {
		host = u.Host
	}
	status, rest := style.Good(strconv.Itoa(m.Attempt.Status)), ""
	switch {
	case m.Attempt.Status == 0:
		status, rest = style.Bad("---"), " "+style.Bad(strings.TrimPrefix(m.Attempt.Error, "could not be reached: "))
	case m.Attempt.Status >= http.StatusMultipleChoices:
		status = style.Bad(strconv.Itoa(m.Attempt.Status))
	}
	if m.Attempt.Number > 1 {
		rest += style.Warn(fmt.Sprintf(" #%d", m.Attempt.Number))
	}
	switch {
	case m.Wait > 0:
		rest += " " + style.Warn("again in "+units.Duration(m.Wait))
	case m.Status != domain.StatusDelivered:
		rest += " " + style.Bad(string(m.Status))
	}
	fmt.Fprintf(t.stdout, "%s %s %-19s %s → %s %s%s\n", m.Attempt.StartedAt.Local().Format("15:04:05"), status, m.EventType,
		terminal.Clean(m.EventID), terminal.Clean(host), style.Dim(units.Duration(m.Attempt.Duration)), rest)
}
