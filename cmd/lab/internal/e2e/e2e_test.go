package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/pgtest"
)

// cases are what every form of Waybill must do.
func cases() map[string]func(*world) {
	return map[string]func(*world){
		"samples arrive byte for byte however published":    samples,
		"10000 generated events arrive byte for byte":       generated,
		"attempts follow the schedule and are logged":       retries,
		"Retry-After lengthens the wait":                    retryAfter,
		"410 makes inactive and holds":                      gone,
		"inactive holds and drains in order":                inactive,
		"deleting ends what is pending":                     deleting,
		"rotation signs with both secrets":                  rotation,
		"test, retry and replay":                            onRequest,
		"a forged test is sent once and counts for nothing": forged,
		"a cancelled job begins nothing more":               cancelled,
		"circuit opens, probes and closes":                  circuit,
		"schedule exhausted is failed":                      exhausted,
		"alerts tell once, and never of alerts":             alerts,
		"rate limit":                                        rateLimit,
		"in-flight cap":                                     inFlight,
		"duplicates are told and not delivered":             duplicates,
		"bad bus messages are rejected with the reason":     rejected,
		"bad requests name their faults":                    refused,
		"more than the store takes is refused at once":      pushedBack,
		"a webhook's change holds for the next event":       changes,
		fromTheAnswer:                              orderedFromTheAnswer,
		"SIGTERM loses and repeats nothing":        graceful,
		"a hanging receiver delays no other":       isolation,
		strangersCase:                              strangers,
		"an AI client asks why and puts it right":  asksWhy,
		"a quota of deliveries holds and releases": quota,
		"statistics equal what receivers counted":  statisticsAreExact,
		whileRequestsGoOn:                          uploaded,
		movingDomain:                               moved,
		noSecretLeaves:                             secrets,
	}
}

func TestEndToEnd(t *testing.T) {
	t.Parallel()
	dir := siteDir(t)
	site, err := stack.NewSite(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := pgtest.Start(t.Context(), "", "fsync=off")
	if err != nil {
		t.Fatalf("the rows on Postgres can't run: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("stop Postgres: %v", err)
		}
	})
	routes, err := filepath.Abs("../../../../config")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]func(context.Context, stack.Options) (*stack.Stack, error){
		"sqlite, embedded NATS": site.AllInOne,
		"postgres, nats-server, two dispatchers": func(ctx context.Context, options stack.Options) (*stack.Stack, error) {
			options.Postgres = cluster
			options.NATSUsers = options.APIs == 0 // as it is shipped
			return site.Split(ctx, options)
		},
	}
	for row, start := range rows {
		for name, run := range cases() {
			t.Run(row+"/"+name, func(t *testing.T) {
				t.Parallel()
				options := stack.Options{Name: "stack", Routes: routes}
				switch name {
				case whileRequestsGoOn:
					options.Gateways = 2
				case movingDomain:
					options.Gateways, options.Settings = 2, map[string]string{"WAYBILL_DOMAIN_VERIFICATION": "none"}
				case strangersCase:
					options.Gateways = 1
				case fromTheAnswer:
					options.APIs = 2
				}
				var told *collector
				if name == noSecretLeaves {
					told = newCollector(t)
					options.Settings = told.settings()
				}
				st, err := start(t.Context(), options)
				if err != nil {
					t.Fatal(err)
				}
				w := newWorld(t, st)
				w.traces = told
				run(w)
			})
		}
	}
}

// siteDir is where the stacks live. E2E_DIR names a folder that is kept, for a look at
// the logs of what went well, too.
func siteDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("E2E_DIR"); dir != "" {
		return filepath.Clean(dir)
	}
	return t.TempDir()
}
