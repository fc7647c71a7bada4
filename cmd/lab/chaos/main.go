// Command chaos runs Waybill's real processes under load and breaks them: it kills them
// with SIGKILL, takes the database or the bus away, loses the bus with its files, cuts the
// power below a file system, and surrounds healthy receivers with hostile ones. Then it
// counts, at receivers of its own, what was lost and what came twice.
//
// It needs Go, the Postgres server programs, and for the power cuts root with a free loop
// device. It exits with 1 when a verdict is bad.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"waybill.dev/cmd/lab/internal/stack"
)

type options struct {
	only    string
	rounds  int
	rate    int
	busRate int
	hooks   int
	outage  time.Duration
	// previous is the folder of another version's binaries.
	previous string
	lasts    time.Duration
	seed     uint64
	dir      string
	json     string
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "run only these scenarios, separated by commas: "+strings.Join(names(), ", "))
	flag.IntVar(&o.rounds, "rounds", 20, "kills of each process; there are half as many power cuts, a quarter as many losses of the bus, a quarter as many kills of the API below a feed, with 20,000 events for each, and a twentieth as many kills of each process of a cluster")
	flag.IntVar(&o.rate, "rate", 500, "events a second over REST")
	flag.IntVar(&o.busRate, "nats-rate", 50, "additional events a second on JetStream")
	flag.IntVar(&o.hooks, "webhooks", 10, "webhooks that get every event")
	flag.DurationVar(&o.outage, "outage", time.Minute, "how long the database and the bus are down, and how long two versions run side by side")
	flag.StringVar(&o.previous, "previous", "", "folder of the binaries of an earlier version, which the upgrade begins with (default: those of this version)")
	flag.DurationVar(&o.lasts, "soak", 2*time.Hour, "how long the soak lasts")
	flag.Uint64Var(&o.seed, "seed", 0, "what the faults of the soak are drawn from (default: another one each time)")
	flag.StringVar(&o.dir, "dir", "", "folder for binaries, data and logs; it is kept (default: a temporary folder)")
	flag.StringVar(&o.json, "json", "", "file that the results are written to as JSON")
	flag.Parse()
	if kind := flag.Arg(0); slices.Contains([]string{hostileArg, politeArg, sickArg}, kind) {
		if err := beSiege(kind, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, o, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func names() []string {
	var list []string
	for _, s := range scenarios() {
		list = append(list, s.name)
	}
	return list
}

// run runs the chosen scenarios one after the other; ok reports whether all are good.
func run(ctx context.Context, o options, out, progress io.Writer) (ok bool, err error) {
	chosen, err := choose(o.only)
	if err != nil {
		return false, err
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "waybill-chaos-"); err != nil {
			return false, fmt.Errorf("make the working folder: %w", err)
		}
		defer os.RemoveAll(dir)
	}
	// Postgres runs as another user below it.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("make the working folder: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return false, fmt.Errorf("open the working folder to Postgres: %w", err)
	}
	fmt.Fprintln(progress, "building the binaries")
	site, err := stack.NewSite(ctx, dir)
	if err != nil {
		return false, err
	}
	var reports []*report
	for _, s := range chosen {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		fmt.Fprintf(progress, "%s: %s\n", s.name, s.what)
		r := newReport(s)
		started := time.Now()
		if err := s.run(ctx, &bench{options: o, site: site, dir: dir, report: r, progress: progress}); err != nil {
			r.fail("could not be run to its end: %v", err)
		}
		r.Seconds = time.Since(started).Seconds()
		r.print(out)
		reports = append(reports, r)
	}
	if len(reports) > 1 {
		printTable(out, reports)
	}
	if o.json != "" {
		if err := writeJSON(o.json, reports); err != nil {
			return false, err
		}
	}
	return !slices.ContainsFunc(reports, func(r *report) bool { return len(r.Faults) > 0 }), nil
}

func choose(only string) ([]scenario, error) {
	all := scenarios()
	if only == "" { // the soak takes hours, so it is asked for by its name
		return slices.DeleteFunc(all, func(s scenario) bool { return s.name == "soak" }), nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func writeJSON(file string, reports []*report) error {
	text, err := json.MarshalIndent(reports, "", "  ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
