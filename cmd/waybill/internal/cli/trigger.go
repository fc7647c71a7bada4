package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/sample"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
)

const (
	maxCount = 10_000_000
	// publishers is how many requests are open at once when several events go out.
	publishers = 16
	// listed is the number of events up to which a table lists each one.
	listed = 20
)

// burst has the flags of `trigger`.
type burst struct {
	sets      []string
	id        string
	count     int
	perSecond float64
}

func (b burst) check() error {
	switch {
	case b.count < 1 || b.count > maxCount:
		return usagef("--count must be from 1 to %d", maxCount)
	case !(b.perSecond >= 0) || math.IsInf(b.perSecond, 0):
		return usagef("--rate must be 0 or more")
	case b.id != "" && b.count > 1:
		return usagef("--id names one event; leave it out with --count")
	case b.id != "" && !domain.ValidEventID(b.id):
		return usagef("--id must be 1 to 64 of A-Z a-z 0-9 _ -")
	}
	return nil
}

func (a *app) trigger() *cobra.Command {
	var b burst
	cmd := &cobra.Command{
		Use:   "trigger EVENT",
		Short: "Publish a sample event",
		Long: "Publishes a sample of an event type over REST, with every documented field. Says\n" +
			"how many webhooks get it. On a terminal, a single event is followed until all of\n" +
			"them have answered, for 15 seconds at most. The types:\n" + list(sample.Types()),
		Example: "  waybill trigger shipment.delivered\n" +
			"  waybill trigger shipment.exception --set severity=low --set location.city=Bonn\n" +
			"  waybill trigger shipment.in_transit --count 1000 --rate 50",
		Args: oneEventType,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return typeNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	where := addTarget(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&b.sets, "set", nil, "`path=value` within data, in JSON or as text; may be repeated")
	flags.StringVar(&b.id, "id", "", "the event's id; default: Waybill makes one")
	flags.IntVar(&b.count, "count", 1, "how many events")
	flags.Float64Var(&b.perSecond, "rate", 0, "events a second; 0: as fast as possible")
	form := addOutput(cmd, asID)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		if err := b.check(); err != nil {
			return err
		}
		kind := domain.EventType(args[0])
		data, err := sample.Data(kind)
		if err != nil {
			return err
		}
		if data, err = change(data, b.sets); err != nil {
			return usage{err}
		}
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		next := func() []byte { return sample.Event(b.id, kind, time.Now(), data) }
		published, err := a.publish(cmd.Context(), c, next, b.count, b.perSecond)
		if err != nil && len(published) > 0 {
			err = fmt.Errorf("%d of %d events were accepted, then it failed: %w", len(published), b.count, err)
		}
		if printErr := a.printPublished(*form, kind, published); err == nil {
			err = printErr
		}
		if err != nil {
			return err
		}
		f := &follower{app: a, client: c, kind: kind}
		if f.match(cmd.Context()) && len(published) == 1 && !published[0].Duplicate && terminal.IsTerminal(a.stdout) && terminal.IsTerminal(a.stderr) {
			f.follow(cmd.Context(), published[0].ID)
		}
		return nil
	})
	return cmd
}

func oneEventType(_ *cobra.Command, args []string) error {
	meant := ""
	if len(args) == 1 {
		if domain.EventType(args[0]).Valid() {
			return nil
		}
		if near := settings.Nearest(args[0], typeNames()); near != "" {
			meant = "; did you mean " + near + "?"
		}
	}
	return usagef("give one event type: %s%s", sample.Types(), meant)
}

// list writes comma-separated words one per line.
func list(words string) string { return "  " + strings.ReplaceAll(words, ", ", "\n  ") }

func typeNames() []string {
	var names []string
	for _, t := range domain.EventTypes() {
		names = append(names, string(t))
	}
	return names
}

// publish publishes count events and returns those that were accepted, in no order.
func (a *app) publish(ctx context.Context, c *client.Client, next func() []byte, count int, perSecond float64) ([]client.Published, error) {
	var bar *progressbar.ProgressBar
	if count > 1 && terminal.IsTerminal(a.stderr) {
		bar = progressbar.NewOptions(count, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription("publishing"),
			progressbar.OptionSetItsString("events"), progressbar.OptionShowIts(), progressbar.OptionShowCount(),
			progressbar.OptionSetWidth(20), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	limit := rate.NewLimiter(rate.Inf, 1)
	if perSecond > 0 {
		limit = rate.NewLimiter(rate.Limit(perSecond), 1)
	}
	var mu sync.Mutex
	var published []client.Published
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(publishers)
	for range count {
		if limit.Wait(ctx) != nil {
			break // a publication has failed: its error is that of the group
		}
		group.Go(func() error {
			one, err := c.Publish(ctx, next())
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			published = append(published, one...)
			if bar != nil {
				_ = bar.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	if bar != nil {
		_ = bar.Finish()
	}
	return published, err
}

func (a *app) printPublished(form output, kind domain.EventType, published []client.Published) error {
	if form == asJSON {
		if published == nil {
			published = []client.Published{}
		}
		return terminal.JSON(a.stdout, map[string]any{"events": published})
	}
	if len(published) == 0 {
		return nil
	}
	if form == asID {
		for _, p := range published {
			fmt.Fprintln(a.stdout, p.ID)
		}
		return nil
	}
	if len(published) > listed {
		fmt.Fprintf(a.stdout, "%d × %s accepted\n", len(published), kind)
		return nil
	}
	var rows [][]string
	for _, p := range published {
		state := "accepted"
		if p.Duplicate {
			state = "duplicate"
		}
		rows = append(rows, []string{p.ID, string(kind), state})
	}
	terminal.Table(a.stdout, []string{"EVENT", "TYPE", "STATE"}, rows)
	return nil
}

// change sets values within data. Without any, the bytes stay as they are.
func change(data []byte, sets []string) ([]byte, error) {
	if len(sets) == 0 {
		return data, nil
	}
	tree, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	for _, one := range sets {
		path, text, ok := strings.Cut(one, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("--set takes path=value, such as location.city=Berlin")
		}
		if tree, err = put(tree, strings.Split(path, "."), value(text)); err != nil {
			return nil, fmt.Errorf("--set %s: %w", path, err)
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tree); err != nil {
		return nil, fmt.Errorf("write data: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// decode reads JSON and keeps numbers as they are written.
func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	err := decoder.Decode(&tree)
	return tree, err
}

// value parses JSON. Text that is not JSON is returned as a string.
func value(text string) any {
	if json.Valid([]byte(text)) {
		if tree, err := decode([]byte(text)); err == nil {
			return tree
		}
	}
	return text
}

// put sets v at path below tree and returns the tree. Objects on the way are made; an
// array's members are named by their index.
func put(tree any, path []string, v any) (any, error) {
	if len(path) == 0 {
		return v, nil
	}
	switch node := tree.(type) {
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(node) {
			return nil, fmt.Errorf("%q is not an index of an array of %d", path[0], len(node))
		}
		node[i], err = put(node[i], path[1:], v)
		return node, err
	case map[string]any:
		child, err := put(node[path[0]], path[1:], v)
		node[path[0]] = child
		return node, err
	default: // nothing yet, or a value that is replaced
		child, err := put(nil, path[1:], v)
		return map[string]any{path[0]: child}, err
	}
}
