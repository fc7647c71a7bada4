package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
)

// scenario is one way to break Waybill.
type scenario struct {
	name string
	what string
	run  func(context.Context, *bench) error
}

func scenarios() []scenario {
	return []scenario{
		{"steady", "no fault, split: attempts recorded = POSTs seen", steady(split)},
		{"steady-all-in-one", "no fault, all in one: attempts recorded = POSTs seen", steady(allInOne)},
		{"kill-all-in-one", "kill -9 of the all-in-one process", kills(allInOne, func(st *stack.Stack, _ int) victim { return process(st.Waybill) })},
		{"kill-api", "kill -9 of the API", kills(split, func(st *stack.Stack, _ int) victim { return process(st.APIs[0]) })},
		{"kill-dispatcher", "kill -9 of one of two dispatchers", kills(split, dispatcherInTurn)},
		{"kill-nats", "kill -9 of nats-server", kills(split, func(st *stack.Stack, _ int) victim { return process(st.NATS[0]) })},
		{"kill-postgres", "kill -9 of Postgres", kills(split, func(st *stack.Stack, _ int) victim { return postgres(st) })},
		{"cluster", "kill -9 of each process of a cluster: three nats-servers, two APIs, four dispatchers", cluster},
		{"lose-bus", "nats-server killed and its JetStream folder removed", losses(split, func(st *stack.Stack) *stack.Process { return st.NATS[0] })},
		{"lose-bus-all-in-one", "the all-in-one process killed and its JetStream folder removed", losses(allInOne, func(st *stack.Stack) *stack.Process { return st.Waybill })},
		{"power-cut", "power cut below Postgres and nats-server", powerCuts(split)},
		{"power-cut-all-in-one", "power cut below the all-in-one process", powerCuts(allInOne)},
		{"power-cut-control", "the same with synchronous_commit=off, which must lose", powerCutControl},
		{"disk-full-database", "the disk of Postgres full for a while", diskFull(databaseDisk)},
		{"disk-full-bus", "the disk of nats-server full for a while", diskFull(busDisk)},
		{"disk-full-all-in-one", "the disk of the all-in-one process full for a while", dataFull},
		{"database-down", "the database down for a while", databaseDown},
		{"nats-down", "nats-server down for a while", natsDown},
		{"isolation", "healthy receivers beside every hostile one, split", isolated(split)},
		{"isolation-all-in-one", "healthy receivers beside every hostile one, all in one", isolated(allInOne)},
		{"uploads", "a release a second under 1,000 requests a second to three gateways", underLoad(split)},
		{"uploads-all-in-one", "a release a second under 1,000 requests a second, all in one", underLoad(allInOne)},
		{"uploads-beside", "an account that uploads as often as it can beside another's 500 requests a second", besideUploads},
		{"uploads-killed", "kill -9 of gateways, API, Postgres and nats-server during builds", killedUploads},
		{"uploads-database", "gateways serve on while the database is down, and count each request", withoutDatabase},
		{"uploads-raced", "two builds of a deployment at a time, again and again", raced},
		{"upgrade", "from an earlier version to this one and back, one process after the other", upgraded},
		{"soak", "hours of faults at random: nothing is lost, and nothing grows", soak},
		{"feed", "a feed that is followed while the API is killed below 32 publishers", feedComplete},
		{"order", "kill -9 of one of three dispatchers below ordered webhooks that fail a tenth of all attempts", orderKept},
		{"order-lose-bus", "nats-server killed and its JetStream folder removed below ordered webhooks: all must arrive, in whatever order", orderBusLost},
		{"order-control", "the same webhooks without order, which must be out of order", orderControl},
		{"metered", "kill -9 of one of two dispatchers below a consumer's webhooks: each delivery is counted once", metered},
		{"sick", "eight healthy receivers beside eight that hang or answer 500, split", besideSick(split)},
		{"sick-all-in-one", "eight healthy receivers beside eight that hang or answer 500, all in one", besideSick(allInOne)},
	}
}

// form starts one of the two forms of Waybill.
type form func(ctx context.Context, b *bench, o stack.Options) (*stack.Stack, error)

func allInOne(ctx context.Context, b *bench, o stack.Options) (*stack.Stack, error) {
	return b.site.AllInOne(ctx, o)
}

func split(ctx context.Context, b *bench, o stack.Options) (*stack.Stack, error) {
	return b.site.Split(ctx, o)
}

// field starts a form with receivers and no load yet.
func (b *bench) field(ctx context.Context, start form, o stack.Options) (*field, error) {
	f, err := b.bare(ctx, start, o)
	if err != nil {
		return nil, err
	}
	if err := f.receive(ctx); err != nil {
		_ = f.stack.Close()
		return nil, err
	}
	return f, nil
}

// bare starts a form without receivers.
func (b *bench) bare(ctx context.Context, start form, o stack.Options) (*field, error) {
	o.Name = b.report.Name
	st, err := start(ctx, b, o)
	if err != nil {
		return nil, err
	}
	f := &field{bench: b, stack: st, api: st.Client(), inFlightFor: storedWithin}
	if f.sink, err = sink.New(); err == nil {
		f.load, err = newPublisher(st)
	}
	if err != nil {
		_ = st.Close()
		return nil, err
	}
	return f, nil
}

// victim is what is killed and started again.
type victim struct {
	name  string
	kill  func() error
	start func(context.Context) error
}

func process(p *stack.Process) victim { return victim{p.Name, p.Kill, p.Start} }

func dispatcherInTurn(st *stack.Stack, round int) victim {
	return process(st.Dispatchers[round%len(st.Dispatchers)])
}

// postgres is killed by its postmaster, as a crash of it would; its children end when
// they notice, and until then it can't start again.
func postgres(st *stack.Stack) victim {
	return victim{"postgres", st.Postgres.Kill, func(ctx context.Context) error {
		// To go through what it had written may take it a minute on a busy machine.
		ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		for {
			err := st.Postgres.Resume(ctx)
			if err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(100 * time.Millisecond):
			}
		}
	}}
}

// wait waits for a while between the two times, which the system's random source draws.
func wait(ctx context.Context, least, most time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(least + rand.N(most-least)):
		return nil
	}
}

// steady publishes without any fault, until more than 10,000 attempts were made.
func steady(start form) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		f, err := b.field(ctx, start, stack.Options{})
		if err != nil {
			return err
		}
		defer f.close()
		f.load.start(ctx, b.rate, b.busRate)
		for f.posts(f.receivers()...) < 20_000 {
			if err := wait(ctx, 50*time.Millisecond, 100*time.Millisecond); err != nil {
				return err
			}
		}
		return f.finish(ctx)
	}
}

// kills ends a process with SIGKILL again and again while events flow.
func kills(start form, choose func(st *stack.Stack, round int) victim) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		f, err := b.field(ctx, start, stack.Options{})
		if err != nil {
			return err
		}
		defer f.close()
		f.load.start(ctx, b.rate, b.busRate)
		if err := f.killInTurns(ctx, choose); err != nil {
			return err
		}
		return f.finish(ctx)
	}
}

// killInTurns kills a process in each round and starts it again. Choose says which process.
func (f *field) killInTurns(ctx context.Context, choose func(st *stack.Stack, round int) victim) error {
	for round := range f.rounds {
		if err := wait(ctx, 1500*time.Millisecond, 4*time.Second); err != nil {
			return err
		}
		v := choose(f.stack, round)
		err := f.broken(func() error {
			if err := v.kill(); err != nil {
				return err
			}
			if err := wait(ctx, 0, time.Second); err != nil {
				return err
			}
			return v.start(ctx)
		})
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		if err := f.stack.Died(); err != nil {
			return fmt.Errorf("round %d: killing %s took another with it: %w", round+1, v.name, err)
		}
	}
	f.report.figure(figureRounds, float64(f.rounds))
	return wait(ctx, 2*time.Second, 3*time.Second)
}

// losses loses the bus with all its files while REST publications go on. Events that
// were published on the bus itself are gone with it, so there are none.
func losses(start form, choose func(*stack.Stack) *stack.Process) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		f, err := b.field(ctx, start, stack.Options{})
		if err != nil {
			return err
		}
		defer f.close()
		f.inFlightFor = recordedWithin
		f.load.start(ctx, b.rate, 0)
		if err := f.loseBus(ctx, choose(f.stack), 16*time.Second); err != nil {
			return err
		}
		if err := wait(ctx, 2*time.Second, 3*time.Second); err != nil {
			return err
		}
		return f.finish(ctx)
	}
}

// loseBus kills the process that has the bus, and removes what the bus has stored, again and again. Between two
// losses it waits for 4 seconds to most.
func (f *field) loseBus(ctx context.Context, p *stack.Process, most time.Duration) error {
	rounds := max(1, f.rounds/4)
	for round := range rounds {
		if err := wait(ctx, 4*time.Second, most); err != nil {
			return err
		}
		err := f.broken(func() error {
			if err := p.Kill(); err != nil {
				return err
			}
			if err := f.stack.LoseBus(); err != nil {
				return err
			}
			return p.Start(ctx)
		})
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	f.report.figure(figureRounds, float64(rounds))
	return nil
}
