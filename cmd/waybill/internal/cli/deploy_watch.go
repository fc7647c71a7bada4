package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
)

// A build is polled often at first: most take less than a second.
const (
	lookFirst = 200 * time.Millisecond
	lookLater = time.Second
	lookOften = 10 * time.Second // how long it is polled often
)

// watcher follows a build. All of its messages go to stderr.
type watcher struct {
	*app

	client *client.Client
	to     client.Source
	log    logPrinter
	live   *liveLine
	lost   bool // the last poll had no answer
}

func (a *app) watch(c *client.Client, to client.Source) *watcher {
	p := logPrinter{w: a.stderr, width: math.MaxInt}
	if columns := terminal.Columns(a.stderr); columns > 0 {
		p.width = columns
	}
	return &watcher{app: a, client: c, to: to, log: p, live: newLiveLine(a.stderr)}
}

func (w *watcher) say(format string, args ...any) {
	w.live.clear()
	w.note("%s", terminal.Hang(fmt.Sprintf(format, args...), 2, 0, w.log.width))
}

// outcome is the result of a deployment for output.
type outcome struct {
	DeploymentName string         `json:"deploymentName"`
	URL            string         `json:"url"`
	LocalURL       string         `json:"localUrl,omitempty"`
	BuildID        string         `json:"buildId"`
	StatusID       string         `json:"statusId"`
	Status         string         `json:"status"`
	Routes         int            `json:"routes"`
	Errors         []client.Fault `json:"errors"`
}

// end follows the build until its end, and reports its result.
func (w *watcher) end(ctx context.Context, accepted client.Accepted, wait time.Duration, form output) error {
	if accepted.StatusID == "" { // the installation's own folder, which has been read already
		w.say("The routes of %s were read anew.", terminal.Clean(accepted.DeploymentName))
		return nil
	}
	status, err := w.follow(ctx, accepted, wait)
	w.live.clear()
	if err != nil {
		return fmt.Errorf("%w\n  The build goes on. See what became of it: %s deployments builds %s", err, w.binary, terminal.Clean(accepted.DeploymentName))
	}
	url := cmp.Or(status.URL, accepted.URL)
	result := outcome{accepted.DeploymentName, url, status.LocalURL, accepted.BuildID, accepted.StatusID, status.Status, status.Result.Routes, status.Result.Errors}
	if form == asJSON {
		if err := terminal.JSON(w.stdout, result); err != nil {
			return err
		}
	}
	if status.Status != client.DeploymentSuccess {
		return w.failed(ctx, result)
	}
	style := terminal.StyleFor(w.stderr)
	if url == "" {
		w.say("%s Deployed %s, with %s. The installation does not say at which URL its gateways answer: its operator sets WAYBILL_GATEWAY_URL.",
			style.Good("✓"), terminal.Clean(accepted.DeploymentName), many(result.Routes, "route"))
		return nil
	}
	w.say("%s Deployed %s, with %s.", style.Good("✓"), terminal.Clean(accepted.DeploymentName), many(result.Routes, "route"))
	if form != asJSON {
		fmt.Fprintln(w.stdout, terminal.Clean(url))
	}
	if status.LocalURL != "" {
		w.say("Clients that can't look up names below localhost reach it at %s", terminal.Clean(status.LocalURL))
	}
	return nil
}

// follow prints the log of a build while it grows. It returns when the build has ended.
func (w *watcher) follow(ctx context.Context, accepted client.Accepted, wait time.Duration) (client.DeploymentStatus, error) {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("the build has not ended within %s", wait))
	defer cancel()
	for {
		status, err := w.look(ctx, accepted)
		switch {
		case ctx.Err() != nil:
			return status, stopped(ctx)
		case err != nil && !client.MayPass(err):
			return status, err
		case err == nil && (status.Status == client.DeploymentSuccess || status.Status == client.DeploymentError):
			return status, nil
		}
		pause := lookFirst
		if time.Since(started) > lookOften {
			pause = lookLater
		}
		w.live.show("%s: %d s", w.doing(status, err), int(time.Since(started).Seconds()))
		select {
		case <-ctx.Done():
			return status, stopped(ctx)
		case <-time.After(pause):
		}
	}
}

// stopped says why the build is no longer followed.
func stopped(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errors.New("interrupted")
}

// look prints the new lines of the log. It reads the status first, so that the log is complete when
// the build has ended.
func (w *watcher) look(ctx context.Context, accepted client.Accepted) (client.DeploymentStatus, error) {
	status, err := w.client.DeploymentStatus(ctx, w.to.Account, w.to.Project, accepted.StatusID)
	if err == nil && accepted.BuildID != "" {
		var steps map[string][]client.LogLine
		if steps, _, err = w.client.BuildLog(ctx, accepted.DeploymentName, accepted.BuildID); err == nil {
			w.live.clear()
			w.log.write(steps)
		}
	}
	if err != nil && !w.lost && ctx.Err() == nil && client.MayPass(err) {
		w.say("%s The build goes on; looking again.", err)
	}
	w.lost = err != nil
	return status, err
}

// doing says what an unfinished build is doing.
func (w *watcher) doing(status client.DeploymentStatus, err error) string {
	if err != nil {
		return "no answer"
	}
	for _, name := range stepOrder {
		if status.Steps[name].Status == client.StepBuilding {
			return name
		}
	}
	return "waiting for a gateway"
}

// failed prints the faults, unless the log has them, and says what is served now.
func (w *watcher) failed(ctx context.Context, result outcome) error {
	if !w.log.faults {
		for _, f := range result.Errors {
			w.log.line("", client.LogLine{Level: "error", Message: f.Detail, File: f.File, Operation: f.Operation, Pointer: f.Pointer})
		}
	}
	why := "the build failed"
	if n := len(result.Errors); n > 0 {
		why += " with " + many(n, "fault")
	}
	d, err := w.client.Deployment(ctx, result.DeploymentName)
	switch {
	case err != nil:
		return errors.New(why)
	case d.Build != nil && d.Build.ID != "":
		return fmt.Errorf("%s; build %d is still served", why, d.Build.Number)
	}
	return fmt.Errorf("%s; nothing is served yet", why)
}

// stepOrder is the order of the steps of a build.
//
//nolint:gochecknoglobals // never changed
var stepOrder = []string{"unpack", "variables", "check", "activate"}

// logPrinter prints the lines of a build's log that it has not printed yet.
type logPrinter struct {
	w       io.Writer
	width   int
	printed map[string]int // lines by step
	faults  bool           // some of them were faults
}

func (p *logPrinter) write(steps map[string][]client.LogLine) {
	if p.printed == nil {
		p.printed = make(map[string]int)
	}
	for step, n := range p.printed {
		if len(steps[step]) < n { // another gateway has taken the build over
			clear(p.printed)
			fmt.Fprintln(p.w, "  The build was begun anew.")
			break
		}
	}
	names := slices.Clone(stepOrder)
	for name := range steps {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[len(stepOrder):])
	for _, name := range names {
		for _, line := range steps[name][p.printed[name]:] {
			p.line(name, line)
			p.printed[name]++
		}
	}
}

// line prints one line. A fault begins with its place, as in `waybill routes check`.
func (p *logPrinter) line(step string, line client.LogLine) {
	var text strings.Builder
	for _, place := range []string{line.File, line.Operation, line.Pointer} {
		if place != "" {
			text.WriteString(terminal.Clean(place) + ": ")
		}
	}
	text.WriteString(terminal.Clean(line.Message))
	head := fmt.Sprintf("  %-9s  ", terminal.Clean(step))
	indent := utf8.RuneCountInString(head)
	body := terminal.Hang(text.String(), indent, indent, p.width)
	style := terminal.StyleFor(p.w)
	switch line.Level {
	case "error":
		p.faults = true
		body = style.Bad(body)
	case "warn":
		body = style.Warn(body)
	}
	fmt.Fprintln(p.w, style.Dim(head)+body)
}

// liveLine is a line on a terminal that is written over and over. Elsewhere nothing is written.
type liveLine struct {
	w     io.Writer // nil: no terminal
	last  time.Time
	shown bool
}

func newLiveLine(w io.Writer) *liveLine {
	if !terminal.IsTerminal(w) || os.Getenv("TERM") == "dumb" {
		w = nil
	}
	return &liveLine{w: w}
}

// show writes the line, at most ten times a second.
func (l *liveLine) show(format string, args ...any) {
	if l.w == nil || time.Since(l.last) < 100*time.Millisecond {
		return
	}
	text := []rune("  " + fmt.Sprintf(format, args...))
	if columns := terminal.Columns(l.w); columns > 0 && len(text) >= columns {
		text = text[:columns-1]
	}
	fmt.Fprintf(l.w, "\r%s\x1b[K", terminal.StyleFor(l.w).Dim(string(text)))
	l.last, l.shown = time.Now(), true
}

// clear removes the line.
func (l *liveLine) clear() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown = false
	}
}
