package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/cmd/lab/internal/uploads"
	"waybill.dev/shared/domain"
)

// rollout is an installation of two of everything, whose processes are replaced one after the other.
type rollout struct {
	*field
	deployer *uploads.Deployer
	requests *uploads.Load // of a deployment
	release  int
}

// requestRate is how many requests a second the deployment gets.
const requestRate = 200

// upgraded starts an earlier version, replaces its processes by this version's under load, and then goes back. Callers
// send nothing to a process that is about to stop, as behind a load balancer. No call may fail.
func upgraded(ctx context.Context, b *bench) error {
	ours := b.site.Programs()
	theirs, err := filepath.Abs(cmp.Or(b.previous, ours))
	if err != nil {
		return err
	}
	if b.previous == "" {
		b.say("without -previous, both versions are this one")
	}
	f, err := b.field(ctx, split, stack.Options{APIs: 2, Dispatchers: 2, Gateways: 2, NATSUsers: true, Programs: theirs})
	if err != nil {
		return err
	}
	defer f.close()
	r := &rollout{field: f}
	stop, err := r.deployed(ctx)
	if err != nil {
		return err
	}
	defer stop()
	f.load.start(ctx, b.rate, b.busRate)
	if err := wait(ctx, plainly, plainly+time.Second); err != nil {
		return err
	}
	started := time.Now()
	if err := f.stack.Migrate(ctx, ours); err != nil {
		return err
	}
	b.report.figure("seconds of the migrations", time.Since(started).Seconds())
	for _, step := range []struct{ name, programs string }{{"to this version", ours}, {"back", theirs}} {
		if err := r.roll(ctx, step.name, step.programs); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	stop()
	r.judge()
	return f.finish(ctx)
}

// deployed deploys a release and begins to send requests to it, until stop is called.
func (r *rollout) deployed(ctx context.Context) (stop func(), err error) {
	r.deployer, err = uploads.NewDeployer(ctx, client.Access{URL: r.stack.URLs[1], Key: domain.Secret(r.stack.Key)})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.deployer.Close()
		}
	}()
	r.release = 1
	accepted, err := r.deployer.Upload(ctx, r.release, 0)
	if err != nil {
		return nil, err
	}
	if err := r.deployer.Await(ctx, accepted); err != nil {
		return nil, err
	}
	r.requests = uploads.NewLoad(accepted.DeploymentName+".gateway.localhost", r.stack.GatewayAddresses, requestRate)
	r.requests.Uploading(r.release)
	if err := wait(ctx, withoutBus, withoutBus+time.Millisecond); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.requests.Run(ctx)
	}()
	ended := false
	return func() {
		if !ended {
			ended = true
			cancel()
			<-done
			r.deployer.Close()
		}
	}, nil
}

// roll replaces the first of each pair of processes, lets both versions work side by side for a while, and
// replaces the others. Meanwhile webhooks are made by one version and changed by the other, and releases are
// deployed.
func (r *rollout) roll(ctx context.Context, name, programs string) error {
	for half := range 2 {
		if err := r.replaceAPI(ctx, half, programs); err != nil {
			return err
		}
		if err := r.replace(ctx, r.stack.Dispatchers[half], programs); err != nil {
			return err
		}
		if err := r.replaceGateway(ctx, half, programs); err != nil {
			return err
		}
		lasts := r.outage
		if half == 1 {
			lasts /= 6
		}
		r.say("%s: %d of 2 replaced", name, half+1)
		for end := time.Now().Add(lasts); time.Now().Before(end); {
			if err := r.work(ctx); err != nil {
				return fmt.Errorf("with %d of 2 replaced: %w", half+1, err)
			}
			if err := wait(ctx, 4*time.Second, 6*time.Second); err != nil {
				return err
			}
		}
	}
	return r.stack.Died()
}

// work makes a webhook at one API and changes it at the other, and deploys a release.
func (r *rollout) work(ctx context.Context) error {
	clients := r.load.apis
	made, err := clients[r.release%2].Register(ctx, client.Webhook{URL: "http://127.0.0.1:1/none", Events: domain.EventTypes()[:1]})
	if err != nil {
		return fmt.Errorf("register a webhook: %w", err)
	}
	other := clients[(r.release+1)%2]
	if err := errors.Join(other.SetActive(ctx, made.ID, false), other.Delete(ctx, made.ID)); err != nil {
		return fmt.Errorf("change a webhook: %w", err)
	}
	r.release++
	r.requests.Uploading(r.release)
	accepted, err := r.deployer.Upload(ctx, r.release, 0)
	if err != nil {
		return err
	}
	if err := r.deployer.Await(ctx, accepted); err != nil {
		return err
	}
	r.requests.Released(r.release, withoutBus)
	return nil
}

// replaceAPI takes an API out of the balance, waits until it has no request, and replaces it.
func (r *rollout) replaceAPI(ctx context.Context, i int, programs string) error {
	r.load.away[i].Store(true)
	defer r.load.away[i].Store(false)
	for r.load.inFlight[i].Load() > 0 {
		if err := wait(ctx, 10*time.Millisecond, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return r.replace(ctx, r.stack.APIs[i], programs)
}

func (r *rollout) replaceGateway(ctx context.Context, i int, programs string) error {
	address := r.stack.GatewayAddresses[i]
	r.requests.Away(address)
	defer r.requests.Back(address)
	if err := wait(ctx, time.Second, time.Second+time.Millisecond); err != nil { // for those that run
		return err
	}
	return r.replace(ctx, r.stack.Gateways[i], programs)
}

// replace stops a process with SIGTERM and starts the program of the same name in another folder.
func (r *rollout) replace(ctx context.Context, p *stack.Process, programs string) error {
	return r.broken(func() error {
		code, err := p.Stop(ctx)
		if err != nil {
			return err
		}
		r.report.must(code == 0, "%s ends with exit code %d", p.Name, code)
		p.From(programs)
		return p.Start(ctx)
	})
}

func (r *rollout) judgeRequests() {
	result := r.requests.Mark()
	r.report.figure("requests of a deployment", float64(result.Requests))
	r.report.figure("of these failed", float64(result.Failed))
	r.report.must(result.Requests > 0 && result.Wrong() == "", "requests of a deployment: %s", result.Wrong())
}

// judge wants every call to have succeeded.
func (r *rollout) judge() {
	r.judgeRequests()
	rest, bus := r.load.refused.Load(), r.load.failed.Load()
	r.report.figure("publications over REST that failed", float64(rest))
	r.report.figure("publications on NATS that failed", float64(bus))
	r.report.must(rest == 0, "%d publications over REST failed", rest)
	r.report.must(bus == 0, "%d publications on NATS failed", bus)
	r.report.figure("releases meanwhile", float64(r.release-1))
}
