// Command bench measures Waybill: how much it delivers, how fast, and what that takes of
// the processors and of memory. It runs the real processes in both forms, with a
// receiver and a publisher beside them, and in the same run a bare loop that signs and
// posts without a queue and without a store: what no server could pass on that machine.
//
// It needs Linux, Go and the Postgres server programs. It exits with 1 when anything was lost, came twice or failed, and,
// with -cost, when a delivery costs more than its budget.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"waybill.dev/cmd/lab/internal/load"
)

type options struct {
	only        string
	form        string
	growth      string
	most        int
	quick       bool
	duration    time.Duration
	size        int
	dispatchers int
	postgres    string
	netHTTP     bool
	peers       string
	dir         string
	json        string
	markdown    string
	svg         string
	profiles    string
	budget      string
	counts      bool
	reason      string
}

func main() {
	o := readFlags()
	if kind := flag.Arg(0); kind != "" {
		known, err := load.Serve(kind, os.Stdin, os.Stdout)
		if !known {
			err = fmt.Errorf("there is no argument %q", kind)
		}
		exit(true, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, o, os.Stdout, os.Stderr)
	stop()
	exit(ok, err)
}

func readFlags() options {
	var o options
	flag.StringVar(&o.only, "only", "", "run only these scenarios, separated by commas: "+strings.Join(scenarioNames(), ", "))
	flag.StringVar(&o.form, "form", "", "run only this form: "+formSplit+" or "+formAllInOne)
	flag.StringVar(&o.growth, "growth", "", "measure what grows with what instead: all, or some of "+strings.Join(axisNames(), ", "))
	flag.IntVar(&o.most, "most", 0, "with -growth: the largest number to measure (default: each axis to its end)")
	flag.BoolVar(&o.quick, "quick", false, "less than a second each, to see that the benchmark works; the figures mean nothing")
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "how long to publish in each scenario")
	flag.IntVar(&o.size, "size", 1024, "bytes of an event")
	flag.IntVar(&o.dispatchers, "dispatchers", 1, "dispatchers in the split form")
	flag.StringVar(&o.postgres, "postgres", "max_wal_size=4GB", "settings of Postgres that differ from its defaults, separated by commas")
	flag.BoolVar(&o.netHTTP, "net-http-receiver", false, "receive with net/http instead of the lean receiver")
	flag.StringVar(&o.peers, "peers", "", "with -growth gateway: gateways to measure too, separated by commas, each a program that is installed: caddy, nginx")
	flag.StringVar(&o.dir, "dir", "", "folder for binaries, data and logs; it is kept (default: a temporary folder)")
	flag.StringVar(&o.json, "json", "", "file that the results are written to as JSON")
	flag.StringVar(&o.markdown, "md", "", "file that the results are written to as Markdown; if it has marks, the results go between them")
	flag.StringVar(&o.svg, "svg", "", "with -growth: folder that plots are written to")
	flag.StringVar(&o.profiles, "profile", "", "folder that CPU and allocation profiles of Waybill's processes are written to, one of each scenario")
	flag.StringVar(&o.budget, "cost", "", "measure what a delivery costs instead, and compare it with the budget in this file")
	flag.BoolVar(&o.counts, "counts", false, "with -cost: only what is counted, which the load of the machine does not change")
	flag.StringVar(&o.reason, "reason", "", "with -cost: put what was measured into the file, for this reason")
	flag.Parse()
	return o
}

func exit(ok bool, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
	os.Exit(0)
}
