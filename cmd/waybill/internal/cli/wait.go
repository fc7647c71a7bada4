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
	// askEvery is how often a job that is waited for is asked for, and sayEvery how often its
	// progress is said where there is no terminal.
	askEvery = 500 * time.Millisecond
	sayEvery = 10 * time.Second
)

// job is what is read of a job that is waited for.
type job struct {
	ID        string `json:"id"`
	Reason    string `json:"reason"` // why none matched; only when it was made
	Status    string `json:"status"`
	Matched   int    `json:"matched"`
	Sent      int    `json:"sent"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
}

func (j job) over() bool { return j.Status != "running" }

// await follows the job that an answer names to its end, and shows it then. What only says what
// it would do has none.
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

// follow tells on stderr how a job goes on, until it is over.
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

// progress returns what tells how far a job is: a bar on a terminal, otherwise a line now and then.
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
