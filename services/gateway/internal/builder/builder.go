// Package builder makes the builds that wait: it unpacks what was uploaded, takes the variables
// of the branch, checks the route files by compiling them, and makes the build the active one.
// Any gateway makes any build, one at a time.
package builder

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/follow"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/deployments"
)

const (
	// renewEvery is how often a claim is renewed, well within deployments.Lease.
	renewEvery = 5 * time.Second
	// limit is how long a build may take.
	limit = 20 * time.Second
	// retryEvery and retries are for writing the result of a build while the database is away.
	retryEvery = time.Second
	retries    = 10
	// releaseTime bounds the giving back of a build at the end of the process.
	releaseTime = 3 * time.Second
)

// Store has the builds.
type Store interface {
	ClaimBuild(ctx context.Context) (*deployments.Claim, error)
	ReportBuild(ctx context.Context, claim *deployments.Claim, p deployments.Progress) error
	EndBuild(ctx context.Context, claim *deployments.Claim, result deployments.Result) (active bool, err error)
	ReleaseBuild(ctx context.Context, claim *deployments.Claim) error
	FailAbandoned(ctx context.Context) (int, error)
	// VariablesOf returns the variables that a build of a branch takes, secrets included.
	VariablesOf(ctx context.Context, account, project, branch string, t domain.EnvironmentType) ([]domain.Variable, error)
}

// Bus sends and receives nudges.
type Bus interface {
	follow.Bus

	Announce(subject string, body []byte)
}

// Options of a builder; all but Services are required.
type Options struct {
	Store      Store
	Services   Services // nil: services behind tunnels are not looked up
	Bus        Bus
	Rules      tenant.Rules
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Builder makes builds while Run runs.
type Builder struct {
	options Options
	metrics *metrics
	limit   time.Duration // time limit of a build
	nudges  signal.Signal
}

// New returns a builder.
func New(o Options) *Builder {
	return &Builder{options: o, metrics: newMetrics(o.Registerer), limit: limit, nudges: signal.New()}
}

// Run makes builds until ctx ends. A build that is under way then is given back.
func (b *Builder) Run(ctx context.Context) error {
	return follow.Follower{
		Bus: b.options.Bus, Nudges: b.nudges, Update: b.makeWaiting, Logger: b.options.Logger, Fails: "builds can't be looked for; they wait",
	}.Run(ctx)
}

// makeWaiting makes all builds that wait.
func (b *Builder) makeWaiting(ctx context.Context) error {
	abandoned, err := b.options.Store.FailAbandoned(ctx)
	if err != nil {
		return err
	}
	if abandoned > 0 {
		b.options.Logger.Warn("builds were given up, which no gateway came to the end of", "builds", abandoned)
		b.metrics.ended.WithLabelValues(resultAbandoned).Add(float64(abandoned))
		b.nudge()
	}
	for {
		claim, err := b.options.Store.ClaimBuild(ctx)
		if err != nil || claim == nil {
			return err
		}
		b.makeOne(ctx, claim)
	}
}

func (b *Builder) nudge() { b.options.Bus.Announce(bus.SubjectGateway, nil) }

// makeOne makes one build, and logs its result.
func (b *Builder) makeOne(ctx context.Context, claim *deployments.Claim) {
	began := time.Now()
	result, err := b.build(ctx, claim)
	outcome := resultLost
	switch {
	case errors.Is(err, deployments.ErrClaimLost):
	case err != nil:
		b.release(ctx, claim, err)
		return
	default:
		outcome = b.writeResult(ctx, claim, result)
		b.nudge()
	}
	took := time.Since(began)
	b.metrics.ended.WithLabelValues(outcome).Inc()
	b.metrics.seconds.Observe(took.Seconds())
	b.options.Logger.Info("a build has ended", "deployment", claim.Build.Deployment, "build", claim.Build.ID, "number", claim.Build.Number,
		"result", outcome, "faults", len(result.Faults), "routes", result.Routes, "took", took)
}

// writeResult writes the result of a build. While the database is away, it retries as long as the claim may
// still be valid.
func (b *Builder) writeResult(ctx context.Context, claim *deployments.Claim, result deployments.Result) (outcome string) {
	ctx = context.WithoutCancel(ctx)
	for try := 1; ; try++ {
		active, err := b.options.Store.EndBuild(ctx, claim, result)
		switch {
		case errors.Is(err, domain.ErrUnavailable) && try < retries:
			time.Sleep(retryEvery)
			continue
		case err != nil:
			if !errors.Is(err, deployments.ErrClaimLost) {
				b.options.Logger.Error("what became of a build can't be written; it will be made again", "build", claim.Build.ID, "error", err)
			}
			return resultLost
		case len(result.Faults) > 0:
			return resultError
		case !active:
			return resultSuperseded
		}
		return resultSuccess
	}
}

// release gives a build back that could not be made for a reason outside the build.
func (b *Builder) release(ctx context.Context, claim *deployments.Claim, why error) {
	ended := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if !ended {
		// The build counts as claimed, and other gateways wait for its lease: the cause that
		// hinders this gateway may hinder all of them.
		b.options.Logger.Error("a build could not be made; it will be tried again", "build", claim.Build.ID, "error", why)
		return
	}
	if err := b.options.Store.ReleaseBuild(ctx, claim); err != nil {
		b.options.Logger.Warn("a build could not be given back; another gateway begins it in a while", "build", claim.Build.ID, "error", err)
		return
	}
	b.nudge()
}
