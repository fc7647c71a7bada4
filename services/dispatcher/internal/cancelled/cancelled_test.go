package cancelled_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/dispatcher/internal/cancelled"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// left are the runs of one job; the first calls fail.
type left struct {
	runs  []pipeline.CancelledRun
	fails int
}

func (l *left) CancelledRuns(_ context.Context, job string, after pipeline.CancelledRun, limit int) ([]pipeline.CancelledRun, error) {
	if l.fails > 0 {
		l.fails--
		return nil, errors.New("away")
	}
	var page []pipeline.CancelledRun
	for _, run := range l.runs {
		if (job == "" || run.Job == job) && run.Delivery > after.Delivery && len(page) < limit {
			page = append(page, run)
		}
	}
	return slices.Clone(page), nil
}

func TestWhatIsLeftDoesNotBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &left{fails: 2}
		for i := range 2500 {
			store.runs = append(store.runs, pipeline.CancelledRun{Job: "j", Delivery: domain.DeliveryID(fmt.Sprintf("d%05d", i)), Rev: 2000})
		}
		runs := cancelled.New(store, slog.New(slog.DiscardHandler))
		go func() { _ = runs.Run(t.Context()) }()
		task := func(rev domain.Revision, attempts int) *domain.Task {
			return &domain.Task{Delivery: "d02499", Rev: rev, RunAttempts: attempts}
		}
		if runs.Has(task(2000, 0)) {
			t.Error("ended before anything was heard")
		}
		runs.Heard("other")
		runs.Heard("j")
		<-time.After(time.Second) // of the bubble
		synctest.Wait()
		for name, c := range map[string]struct {
			task *domain.Task
			want bool
		}{
			"not begun":          {task(2000, 0), true},
			"put off":            {task(2004, 0), true},
			"after an attempt":   {task(2002, 1), false},
			"the run before":     {task(1004, 0), false},
			"asked for again":    {task(3000, 0), false},
			"a first delivery":   {task(0, 0), false},
			"another's delivery": {&domain.Task{Delivery: "e", Rev: 2000}, false},
		} {
			if got := runs.Has(c.task); got != c.want {
				t.Errorf("%s: %t", name, got)
			}
		}
	})
}
