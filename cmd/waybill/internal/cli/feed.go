package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/verb"
)

const (
	// feedWait is how long one request waits for events, in seconds.
	feedWait = 20
	// feedPage is how many events one answer has at most.
	feedPage = 1000
	// feedAgain is how long a reader with --follow waits after a failure.
	feedAgain = 2 * time.Second
)

// addFeed adds the commands that read the feeds of webhooks.
func (a *app) addFeed(cmd *cobra.Command) {
	noun := verb.Cursors()
	cursor := &cobra.Command{Use: noun.Name, Short: noun.Short, Long: noun.Long, RunE: subcommands}
	for _, v := range noun.Verbs {
		cursor.AddCommand(a.verb(v))
		cursor.Example = strings.TrimPrefix(cursor.Example+"\n"+v.Example, "\n")
	}
	for _, c := range []*cobra.Command{a.feed(), cursor, a.reconcile()} {
		cmd.AddCommand(c)
		first, _, _ := strings.Cut(c.Example, "\n")
		cmd.Example += "\n" + first
	}
}

// feedCommand makes a command that reads the feed of the webhook which is its argument. The context
// that use gets is done when the command is to end.
func (a *app) feedCommand(v verb.Verb, use func(ctx context.Context, r *feedReader, form output) error) *cobra.Command {
	v.Args = verb.WebhookArg()
	cmd := &cobra.Command{
		Use: v.Name + " WEBHOOK-ID", Short: v.Short, Long: v.Long, Example: v.Example,
		Args: func(_ *cobra.Command, args []string) error { return counted(v, args) },
	}
	where, form := addTarget(cmd), addOutput(cmd)
	cmd.RunE = run(func(_ *cobra.Command, args []string) error {
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		act := &action{Verb: v, input: &verb.Input{Args: args}}
		if _, err := act.lengthen(ctx, c); err != nil {
			return err
		}
		return use(ctx, &feedReader{client: c, path: verb.Feed(args[0])}, *form)
	})
	return cmd
}

func (a *app) feed() *cobra.Command {
	var from feedReader
	cmd := a.feedCommand(verb.Verb{
		Name: "feed", Short: "Read a webhook's events in the order of their commits",
		Long: "Reads what a webhook is registered for, in the order in which it was committed,\n" +
			"from the oldest event that is kept, or from a cursor on. Nothing is skipped. The\n" +
			"cursor to go on with is told at the end. With -o json, each event is a line, as a\n" +
			"callback has it.",
		Example: "  waybill webhooks feed 0198e5c2-…\n  waybill webhooks feed 0198e5c2-… --after CURSOR --follow -o json",
	}, func(ctx context.Context, r *feedReader, form output) error {
		if from.limit < 0 {
			return usagef("--limit must be 0 or more")
		}
		r.cursor, r.follow, r.limit = from.cursor, from.follow, from.limit
		err := r.each(ctx, func(e feedEvent) error { return a.showEvent(form, e) })
		if r.cursor != "" {
			a.note("Go on with: --after %s", terminal.Clean(r.cursor))
		}
		return err
	})
	cmd.Flags().StringVar(&from.cursor, "after", "", "the `cursor` where reading ended before")
	cmd.Flags().IntVar(&from.limit, "limit", 0, "how many events to show; default all")
	cmd.Flags().BoolVarP(&from.follow, "follow", "f", false, "go on with the events that come")
	return cmd
}

func (a *app) showEvent(form output, e feedEvent) error {
	if form == asJSON {
		return terminal.JSONLine(a.stdout, e.raw)
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %-20s  %s\n", terminal.Clean(e.Timestamp), terminal.Clean(e.Type), terminal.Clean(e.ID))
	return err
}

// feedEvent is the part of an event that is read.
type feedEvent struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`

	raw json.RawMessage
}

// feedReader reads a webhook's feed page by page.
type feedReader struct {
	client *client.Client
	path   string
	cursor string // position of the reader
	follow bool   // go on at the end
	limit  int    // number of events; 0: no limit
}

// each calls take with each event, until the end, an error, or ctx is done.
func (r *feedReader) each(ctx context.Context, take func(feedEvent) error) error {
	for left := r.limit; ; {
		size := feedPage
		if r.limit > 0 {
			size = min(left, feedPage)
		}
		events, done, err := r.page(ctx, size)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end was asked for
		case err != nil && r.follow && !refused(err):
			again := time.NewTimer(feedAgain)
			select { // the installation may come back
			case <-ctx.Done():
			case <-again.C:
			}
			again.Stop()
			continue
		case err != nil:
			return err
		}
		for _, e := range events {
			if err := take(e); err != nil {
				return err
			}
		}
		if left -= len(events); r.limit > 0 && left <= 0 || done && !r.follow {
			return nil
		}
	}
}

// refused reports whether the installation has said that the request is wrong.
func refused(err error) bool {
	p, ok := errors.AsType[*client.Problem](err)
	return ok && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests
}

// page reads a page, and moves the cursor.
func (r *feedReader) page(ctx context.Context, size int) (events []feedEvent, done bool, err error) {
	q := url.Values{"limit": {strconv.Itoa(size)}}
	if r.cursor != "" {
		q.Set("after", r.cursor)
	}
	if r.follow {
		q.Set("wait", strconv.Itoa(feedWait))
	}
	answer, err := r.client.Do(ctx, http.MethodGet, r.path+"?"+q.Encode(), nil)
	if err != nil {
		return nil, false, err
	}
	var page struct {
		Data   []json.RawMessage `json:"data"`
		Cursor string            `json:"cursor"`
		Done   bool              `json:"done"`
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		return nil, false, fmt.Errorf("read answer: %w", err)
	}
	for _, raw := range page.Data {
		e := feedEvent{raw: raw}
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, false, fmt.Errorf("read event: %w", err)
		}
		events = append(events, e)
	}
	r.cursor = page.Cursor
	return events, page.Done, nil
}
