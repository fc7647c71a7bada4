package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/verb"
	"waybill.dev/shared/units"
)

const (
	// readEvery is how often new requests are read while a log is followed.
	readEvery = time.Second
	// late is how much later than others the row of a request may become visible.
	late = 5 * time.Second
	// readPage is how many requests one answer has at most.
	readPage = 200
)

// reading has the flags of `logs`.
type reading struct {
	goOn                                  bool
	limit                                 int
	method, status, route, search, weight string
}

func (a *app) logs() *cobra.Command {
	var r reading
	cmd := &cobra.Command{
		Use:   "logs DEPLOYMENT [REQUEST-ID]",
		Short: "Show what a deployment has answered",
		Long: "Shows the newest requests of a deployment, the oldest of them first, or one\n" +
			"request with the entries of its log. The routes of waybill dev's own folder are\n" +
			"the deployment local. Requests show within two seconds. With --follow, -o json\n" +
			"writes one line for each.",
		Example: "  waybill logs shop-main-4zq2mw7k5a\n" +
			"  waybill logs shop-main-4zq2mw7k5a --follow --status 5xx\n" +
			"  waybill logs local -o json --jq '.data[].path'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("give the deployment: waybill logs DEPLOYMENT [REQUEST-ID]")
			}
			return nil
		},
	}
	where := addTarget(cmd)
	cmd.ValidArgsFunction = (&action{Verb: verb.Verb{Args: verb.DeploymentArg()}, where: where, input: &verb.Input{}}).complete
	flags := cmd.Flags()
	flags.BoolVarP(&r.goOn, "follow", "f", false, "go on with the requests that come")
	flags.IntVar(&r.limit, "limit", 50, "how many requests to show, at most 200")
	flags.StringVar(&r.method, "method", "", "only requests with this `method`")
	flags.StringVar(&r.status, "status", "", "only answers of this `class`: 2xx, 3xx, 4xx, 5xx")
	flags.StringVar(&r.route, "route", "", "only requests of the route with this `path`, as the route file has it")
	flags.StringVar(&r.weight, "severity", "", "only requests whose worst entry is debug, info, warn or error")
	flags.StringVar(&r.search, "search", "", "only requests with this `text` in the message of an entry")
	form := addOutput(cmd, asID)
	cmd.RunE = run(func(_ *cobra.Command, args []string) error {
		if r.limit < 1 || r.limit > readPage {
			return usagef("--limit must be 1 to %d", readPage)
		}
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		log := &requestLog{app: a, client: c, path: verb.RequestLogs(args[0]), form: *form, reading: r}
		if len(args) == 2 {
			return log.one(ctx, args[1])
		}
		return log.run(ctx)
	})
	return cmd
}

// requestLog is the log of one deployment.
type requestLog struct {
	*app
	reading

	client *client.Client
	path   string
	form   output
	// shown are the requests of the last seconds, so that none is shown twice.
	shown []logged
}

// logged is the part of a request that is read.
type logged struct {
	RequestID  string    `json:"requestId"`
	Timestamp  time.Time `json:"timestamp"`
	Method     string    `json:"method"`
	Path       string    `json:"path"`
	StatusCode int       `json:"statusCode"`
	DurationMs float64   `json:"durationMs"`
	Consumer   string    `json:"consumer"`
	Severity   string    `json:"severity"`

	raw json.RawMessage
}

func (l *requestLog) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"httpMethod": l.method, "httpStatus": l.status, "routePath": l.route, "severity": l.weight, "search": l.search,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// read returns one page of requests, the newest first.
func (l *requestLog) read(ctx context.Context, q url.Values) (list []logged, cursor string, err error) {
	answer, err := l.client.Do(ctx, http.MethodGet, l.path+"?"+q.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	var page struct {
		Data       []json.RawMessage `json:"data"`
		Pagination struct {
			Cursor string `json:"cursor"`
		} `json:"pagination"`
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		return nil, "", fmt.Errorf("read answer: %w", err)
	}
	for _, raw := range page.Data {
		one := logged{raw: raw}
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, "", fmt.Errorf("read request: %w", err)
		}
		list = append(list, one)
	}
	return list, page.Pagination.Cursor, nil
}

// run prints the newest requests, and with --follow also the later ones.
func (l *requestLog) run(ctx context.Context) error {
	q := l.query()
	q.Set("limit", strconv.Itoa(l.limit))
	began := time.Now().UTC()
	list, cursor, err := l.read(ctx, q)
	for err == nil && cursor != "" && len(list) < l.limit { // a long search is answered in parts
		q.Set("cursor", cursor)
		var more []logged
		more, cursor, err = l.read(ctx, q)
		list = append(list, more[:min(len(more), l.limit-len(list))]...)
	}
	if err != nil {
		return err
	}
	if l.form == asJSON && !l.goOn {
		page := map[string][]json.RawMessage{"data": {}} // as in the API, the newest first
		for _, one := range list {
			page["data"] = append(page["data"], one.raw)
		}
		return terminal.JSON(l.stdout, page)
	}
	l.show(list)
	if len(list) == 0 && !l.goOn {
		l.note("There are no such requests.")
	}
	if !l.goOn {
		return nil
	}
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if began, err = l.more(ctx, began); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// more prints the requests since a time, and returns the time from which to continue.
func (l *requestLog) more(ctx context.Context, since time.Time) (time.Time, error) {
	now := time.Now().UTC()
	q := l.query()
	q.Set("limit", strconv.Itoa(readPage))
	q.Set("startTime", since.Add(-late).Format(time.RFC3339Nano))
	var fresh []logged
	for {
		list, cursor, err := l.read(ctx, q)
		if err != nil {
			return since, err
		}
		fresh = append(fresh, list...)
		if cursor == "" {
			break
		}
		q.Set("cursor", cursor)
	}
	fresh = slices.DeleteFunc(fresh, func(one logged) bool {
		return slices.ContainsFunc(l.shown, func(s logged) bool { return s.RequestID == one.RequestID })
	})
	l.show(fresh)
	l.shown = slices.DeleteFunc(l.shown, func(s logged) bool { return s.Timestamp.Before(since.Add(-2 * late)) })
	return now, nil
}

// show prints requests in the order of their time; list has the newest first.
func (l *requestLog) show(list []logged) {
	style := terminal.StyleFor(l.stdout)
	for _, one := range slices.Backward(list) {
		l.shown = append(l.shown, one)
		switch l.form {
		case asJSON:
			_ = terminal.JSONLine(l.stdout, one.raw)
			continue
		case asID:
			fmt.Fprintln(l.stdout, terminal.Clean(one.RequestID))
			continue
		}
		status := strconv.Itoa(one.StatusCode)
		switch one.Severity {
		case "error":
			status = style.Bad(status)
		case "warn":
			status = style.Warn(status)
		}
		fmt.Fprintf(l.stdout, "%s  %s  %s %s  %s  %s  %s\n", one.Timestamp.Format("2006-01-02T15:04:05.000Z07:00"), status,
			terminal.Clean(one.Method), terminal.Clean(one.Path), units.Duration(time.Duration(one.DurationMs*float64(time.Millisecond))), terminal.Clean(one.Consumer), terminal.Clean(one.RequestID))
	}
}

// one shows a request with the entries of its log.
func (l *requestLog) one(ctx context.Context, id string) error {
	answer, err := l.client.Do(ctx, http.MethodGet, l.path+"/"+url.PathEscape(id), nil)
	if err != nil {
		return err
	}
	if l.form == asJSON {
		return terminal.JSON(l.stdout, json.RawMessage(answer))
	}
	var r struct {
		logged

		Entries []struct {
			Timestamp time.Time `json:"timestamp"`
			Severity  string    `json:"severity"`
			Source    string    `json:"source"`
			Message   string    `json:"message"`

			Attributes map[string]json.RawMessage `json:"attributes"`
		} `json:"entries"`
		BackEnd *struct {
			Host       string  `json:"host"`
			Status     *int    `json:"status"`
			DurationMs float64 `json:"durationMs"`
		} `json:"backEnd"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	l.show([]logged{r.logged})
	if l.form == asID {
		return nil
	}
	for _, e := range r.Entries {
		line := []string{fmt.Sprintf("  %-5s", terminal.Clean(e.Severity)), terminal.Clean(e.Source), terminal.Clean(e.Message)}
		for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
			value := string(e.Attributes[name])
			_ = json.Unmarshal(e.Attributes[name], &value) // a text is printed without quotes, anything else as it is written
			line = append(line, terminal.Clean(name+"="+value))
		}
		fmt.Fprintln(l.stdout, strings.TrimRight(strings.Join(line, "  "), " "))
	}
	if b := r.BackEnd; b != nil {
		said := "no answer"
		if b.Status != nil {
			said = strconv.Itoa(*b.Status)
		}
		fmt.Fprintf(l.stdout, "  back end %s: %s after %s\n", terminal.Clean(b.Host), said, units.Duration(time.Duration(b.DurationMs*float64(time.Millisecond))))
	}
	return nil
}
