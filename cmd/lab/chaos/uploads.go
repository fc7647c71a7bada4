package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/cmd/lab/internal/uploads"
	"waybill.dev/shared/domain"
)

// The load on deployments.
const (
	uploadRate     = 1000 // requests a second
	uploadGateways = 3
	uploadsARound  = 5 // 100 with the default rounds
	// An account may upload 60 times a minute.
	betweenUploads = time.Second + 20*time.Millisecond
	plainly        = 10 * time.Second
	// everywhere is within what time a release is served by every gateway; without the bus
	// they look every five seconds.
	everywhere   = time.Second
	withoutBus   = 5*time.Second + everywhere
	endsWithin   = time.Minute // what was accepted
	paddedRoutes = 2000        // make a build take long enough to be hit in each step
)

// deployed is an installation with gateways, a deployment, and requests to it.
type deployed struct {
	*bench
	stack    *stack.Stack
	deployer *uploads.Deployer
	load     *uploads.Load
	name     string // of the deployment
	release  int    // the last one that was uploaded

	stop context.CancelFunc // ends the requests
	done chan struct{}
}

// deployed starts an installation and deploys the first release.
func (b *bench) deployed(ctx context.Context, start form, rate int) (*deployed, error) {
	st, err := start(ctx, b, stack.Options{Name: b.report.Name, Gateways: uploadGateways, Dispatchers: 1})
	if err != nil {
		return nil, err
	}
	d := &deployed{bench: b, stack: st, done: make(chan struct{})}
	if err := d.begin(ctx, rate); err != nil {
		b.say("%s", st.Logs())
		_ = st.Close()
		return nil, err
	}
	return d, nil
}

func (d *deployed) begin(ctx context.Context, rate int) error {
	var err error
	if d.deployer, err = uploads.NewDeployer(ctx, client.Access{URL: d.stack.URL, Key: domain.Secret(d.stack.Key)}); err != nil {
		return err
	}
	d.release = 1
	accepted, err := d.deployer.Upload(ctx, d.release, 0)
	if err != nil {
		return err
	}
	if err := d.deployer.Await(ctx, accepted); err != nil {
		return err
	}
	d.name = accepted.DeploymentName
	d.load = uploads.NewLoad(d.name+".gateway.localhost", d.stack.GatewayAddresses, rate)
	d.load.Uploading(1)
	if err := wait(ctx, withoutBus, withoutBus+time.Millisecond); err != nil {
		return err
	}
	ctx, d.stop = context.WithCancel(ctx)
	go func() {
		defer close(d.done)
		d.load.Run(ctx)
	}()
	return nil
}

// close ends everything; the logs are shown when something was found wrong.
func (d *deployed) close() {
	d.stop()
	<-d.done
	d.deployer.Close()
	if err := d.stack.Died(); err != nil {
		d.report.fail("%v", err)
	}
	if err := d.stack.Close(); err != nil {
		d.report.fail("stop at the end: %v", err)
	}
	if len(d.report.Faults) > 0 {
		fmt.Fprintln(d.progress, d.stack.Logs())
	}
}

// judge notes what came of the requests since the last time.
func (d *deployed) judge(figure string) uploads.Result {
	r := d.load.Mark()
	d.report.figure("requests "+figure, float64(r.Requests))
	d.report.figure("of these failed", d.report.Figures["of these failed"]+float64(r.Failed))
	d.report.figure("of these of two releases", d.report.Figures["of these of two releases"]+float64(r.Mixed))
	d.report.figure("of these of one out of date", d.report.Figures["of these of one out of date"]+float64(r.Stale))
	d.report.must(r.Requests > 0, "there were no requests %s", figure)
	d.report.must(r.Wrong() == "", "%s: %s", figure, r.Wrong())
	return r
}

// underLoad uploads one release a second while requests go on.
func underLoad(start form) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		d, err := b.deployed(ctx, start, uploadRate)
		if err != nil {
			return err
		}
		defer d.close()
		if err := wait(ctx, plainly, plainly+time.Millisecond); err != nil {
			return err
		}
		before := d.judge("without uploads")
		second := time.NewTicker(betweenUploads)
		defer second.Stop()
		for range uploadsARound * b.rounds {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-second.C:
			}
			if err := d.deploy(ctx, 0, everywhere); err != nil {
				return err
			}
		}
		if err := wait(ctx, 2*everywhere, 2*everywhere+time.Millisecond); err != nil {
			return err
		}
		during := d.judge("during uploads")
		b.report.figure("uploads", float64(uploadsARound*b.rounds))
		b.report.figure("longest time until a release was everywhere, ms", milliseconds(during.Slowest))
		b.report.figure("p99 without uploads, ms", milliseconds(before.P99))
		b.report.figure("p99 during uploads, ms", milliseconds(during.P99))
		b.report.must(during.Slowest <= everywhere, "a release was everywhere only after %s", during.Slowest)
		b.report.must(during.P99 <= 2*before.P99, "uploads raise the p99 from %s to %s", before.P99, during.P99)
		return nil
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// deploy uploads the next release and waits for it.
func (d *deployed) deploy(ctx context.Context, padding int, within time.Duration) error {
	d.release++
	d.load.Uploading(d.release)
	accepted, err := d.deployer.Upload(ctx, d.release, padding)
	if err != nil {
		return err
	}
	if err := d.deployer.Await(ctx, accepted); err != nil {
		return err
	}
	d.load.Released(d.release, within)
	return nil
}

// killedUploads kills what a build needs, at any moment of it: each upload that was accepted ends,
// and ends well.
func killedUploads(ctx context.Context, b *bench) error {
	d, err := b.deployed(ctx, split, uploadRate/10)
	if err != nil {
		return err
	}
	defer d.close()
	begun := time.Now()
	if err := d.deploy(ctx, paddedRoutes, withoutBus); err != nil {
		return err
	}
	takes := time.Since(begun)
	b.report.figure("seconds of a build that nothing disturbs", takes.Seconds())
	k := &kill{deployed: d, takes: takes, hit: make(map[string]int)}
	for round := range b.rounds {
		victims := k.victims(round)
		for _, kind := range []string{"gateways", "API", "Postgres", "NATS"} {
			if err := k.once(ctx, kind, victims[kind]); err != nil {
				return fmt.Errorf("round %d, kill -9 of %s: %w", round+1, kind, err)
			}
			if err := d.stack.Died(); err != nil {
				return fmt.Errorf("round %d: killing %s took another with it: %w", round+1, kind, err)
			}
		}
	}
	if err := wait(ctx, withoutBus, withoutBus+time.Millisecond); err != nil {
		return err
	}
	d.judge("while processes were killed")
	b.report.figure(figureRounds, float64(4*b.rounds))
	for _, step := range slices.Sorted(maps.Keys(k.hit)) {
		b.report.figure("kills while the build was at "+step, float64(k.hit[step]))
	}
	b.report.figure("longest time from an upload to its end, seconds", k.longest.Seconds())
	b.report.figure("longest time until a release was everywhere, seconds", k.slowest.Seconds())
	return nil
}

// kill is a run of kills during builds.
type kill struct {
	*deployed
	takes   time.Duration
	longest time.Duration
	slowest time.Duration  // from the end of a build until it was everywhere
	hit     map[string]int // kills by what the build was doing
}

// victims are what is killed: two of the gateways, so that more often than not the one that builds is
// among them, and a third takes over.
func (k *kill) victims(round int) map[string][]victim {
	spared := round % len(k.stack.Gateways)
	var gateways []victim
	for i, p := range k.stack.Gateways {
		if i == spared {
			continue
		}
		address := k.stack.GatewayAddresses[i]
		gateways = append(gateways, victim{p.Name, func() error {
			k.load.Away(address)
			return p.Kill()
		}, func(ctx context.Context) error {
			defer k.load.Back(address)
			return p.Start(ctx)
		}})
	}
	return map[string][]victim{
		"gateways": gateways, "API": {process(k.stack.APIs[0])}, "Postgres": {postgres(k.stack)}, "NATS": {process(k.stack.NATS[0])},
	}
}

// once uploads a release, kills somewhere between the upload and the end of the build, and waits for the end.
func (k *kill) once(ctx context.Context, kind string, victims []victim) error {
	k.release++
	k.load.Uploading(k.release)
	begun := time.Now()
	var accepted atomic.Pointer[client.Accepted]
	var uploading errgroup.Group
	ending, cancel := context.WithTimeout(ctx, 2*endsWithin)
	defer cancel()
	uploading.Go(func() error {
		made, err := k.deployer.Upload(ending, k.release, paddedRoutes)
		accepted.Store(&made)
		return err
	})
	if err := wait(ctx, 0, k.takes+time.Millisecond); err != nil {
		return err
	}
	k.hit[k.at(ctx, accepted.Load())]++
	for _, v := range victims {
		if err := v.kill(); err != nil {
			return err
		}
	}
	if err := wait(ctx, 0, time.Second); err != nil {
		return err
	}
	for _, v := range victims {
		if err := v.start(ctx); err != nil {
			return fmt.Errorf("start %s: %w", v.name, err)
		}
	}
	if err := uploading.Wait(); err != nil {
		return err
	}
	status, err := k.deployer.End(ending, *accepted.Load())
	if err != nil {
		return err
	}
	took := time.Since(begun)
	k.longest = max(k.longest, took)
	if status.Status != client.DeploymentSuccess {
		k.report.fail("kill -9 of %s: build %s ends as %s: %+v", kind, accepted.Load().BuildID, status.Status, status.Result.Errors)
		return nil
	}
	k.report.must(took <= endsWithin, "kill -9 of %s: an upload took %s to its end", kind, took)
	k.load.Released(k.release, withoutBus)
	return k.spread(ctx)
}

// spread waits until every gateway serves the release: the next kill may take away what they need to
// learn of it.
func (k *kill) spread(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, withoutBus)
	defer cancel()
	begun := time.Now()
	waited := stack.Await(within, func() (bool, error) { return k.load.Serves(within, k.release), nil })
	k.slowest = max(k.slowest, time.Since(begun))
	k.report.must(waited == nil || ctx.Err() != nil, "release %d was not everywhere %s after its build", k.release, withoutBus)
	return ctx.Err()
}

// at says what a build is doing.
func (k *kill) at(ctx context.Context, accepted *client.Accepted) string {
	if accepted == nil {
		return "its upload"
	}
	status, err := k.deployer.Status(ctx, *accepted)
	switch {
	case err != nil:
		return "something that could not be asked"
	case status.Status != "IN_PROGRESS":
		return "its end"
	}
	for _, step := range []string{"activate", "check", "variables", "unpack"} {
		if begun := status.Steps[step].Status; begun == client.StepBuilding || begun == client.DeploymentSuccess {
			return step
		}
	}
	return "the queue"
}

// raced builds a deployment anew twice at a time, again and again: the build with the higher number is
// served in the end.
func raced(ctx context.Context, b *bench) error {
	d, err := b.deployed(ctx, split, uploadRate/10)
	if err != nil {
		return err
	}
	defer d.close()
	races, wrong := 50*b.rounds, 0
	for range races {
		ok, err := d.race(ctx)
		if err != nil {
			return err
		}
		if !ok {
			wrong++
		}
	}
	b.report.figure("races of two builds", float64(races))
	b.report.figure("of these with the older one served", float64(wrong))
	b.report.must(wrong == 0, "%d of %d races ended with the older build", wrong, races)
	d.judge("during races")
	return nil
}

// race makes two builds at once; ok reports whether the newest is served when both have ended.
func (d *deployed) race(ctx context.Context) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	var both errgroup.Group
	for range 2 {
		both.Go(func() error {
			accepted, err := d.deployer.Redeploy(ctx, d.name, "")
			if err == nil {
				_, err = d.deployer.End(ctx, accepted)
			}
			return err
		})
	}
	if err := both.Wait(); err != nil {
		return false, err
	}
	now, err := d.deployer.Deployment(ctx, d.name)
	if err != nil {
		return false, err
	}
	return now.Build != nil && now.LastBuild != nil && now.Build.Number == now.LastBuild.Number, nil
}
