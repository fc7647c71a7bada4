package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/schollz/progressbar/v3"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/verb"
)

const (
	// askEvery is how often a job is polled, and sayEvery how often its progress is printed without
	// a terminal.
	askEvery = 500 * time.Millisecond
	sayEvery = 10 * time.Second
)

// job is the part of a job that is read.
type job struct {
	ID        string `json:"id"`
	Reason    string `json:"reason"` // why none matched; only in the answer that made it
	Status    string `json:"status"`
	Matched   int    `json:"matched"`
	Sent      int    `json:"sent"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
}

func (j job) over() bool { return j.Status != "running" }

// await follows the job in an answer to its end, and shows it then. The answer to a dry run has no
// job.
func (a *app) await(ctx context.Context, c *client.Client, act *action, answer []byte) error {
	var made job
	if err := json.Unmarshal(answer, &made); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if made.ID == "" {
		return a.show(act, answer, nil)
	}
	answer, ended, err := a.follow(ctx, c, made)
	if err != nil {
		return fmt.Errorf("%w (the job goes on: %s jobs get %s)", err, a.binary, terminal.Clean(made.ID))
	}
	act.Show = verb.JobView()
	if err := a.show(act, answer, nil); err != nil {
		return err
	}
	if made.Reason != "" {
		a.note("%s", terminal.Clean(made.Reason))
	}
	switch {
	case ended.Failed > 0:
		return fmt.Errorf("%d of %d deliveries failed", ended.Failed, ended.Matched)
	case ended.Status == "cancelled":
		return errors.New("the job was cancelled")
	}
	return nil
}

// follow prints the progress of a job on stderr, until it has ended.
func (a *app) follow(ctx context.Context, c *client.Client, made job) (answer []byte, ended job, err error) {
	tell, end := a.progress(made)
	defer end()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		if answer, err = c.Do(ctx, http.MethodGet, verb.JobPath(made.ID), nil); err != nil {
			return nil, job{}, err
		}
		var now job
		if err := json.Unmarshal(answer, &now); err != nil {
			return nil, job{}, fmt.Errorf("read job: %w", err)
		}
		tell(now)
		if now.over() {
			return answer, now, nil
		}
		select {
		case <-ctx.Done():
			return nil, job{}, ctx.Err()
		case <-tick.C:
		}
	}
}

// progress returns a function that shows the progress of a job: as a bar on a terminal, otherwise
// as a line now and then.
func (a *app) progress(made job) (tell func(job), end func()) {
	if terminal.IsTerminal(a.stderr) {
		bar := progressbar.NewOptions(made.Matched, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription("sending"),
			progressbar.OptionSetItsString("deliveries"), progressbar.OptionShowIts(), progressbar.OptionShowCount(),
			progressbar.OptionSetWidth(20), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		return func(j job) { _ = bar.Set(min(j.Delivered+j.Failed, made.Matched)) }, func() { _ = bar.Finish() }
	}
	var said time.Time
	return func(j job) {
		if j.over() || time.Since(said) >= sayEvery {
			said = time.Now()
			a.note("%d of %d sent, %d delivered, %d failed", j.Sent, j.Matched, j.Delivered, j.Failed)
		}
	}, func() {}
}
