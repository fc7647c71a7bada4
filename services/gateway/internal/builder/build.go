package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"waybill.dev/services/gateway/internal/folder"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/deployments"
)

// The steps of a build. The store does the last one, activate.
const (
	stepUnpack    = "unpack"
	stepVariables = "variables"
	stepCheck     = "check"
)

// errTime is the cause when a build is ended because it takes too long.
var errTime = fmt.Errorf("it took longer than %g s", limit.Seconds())

// work is a build under way.
type work struct {
	*Builder

	claim     *deployments.Claim
	record    *record
	variables []domain.Variable
}

// build makes a build, from the first step to the last. An error, such as deployments.ErrClaimLost,
// keeps this gateway from making the build and says nothing about the build itself.
func (b *Builder) build(ctx context.Context, claim *deployments.Claim) (deployments.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := time.AfterFunc(b.limit, func() { cancel(errTime) })
	defer clock.Stop()
	w := &work{Builder: b, claim: claim, record: &record{}}
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		w.renew(ctx, cancel)
	}()
	result, err := w.steps(ctx)
	cancel(nil)
	<-renewed
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errTime) {
		w.record.faults(routefile.Faults{{Message: errTime.Error()}})
		return w.result(0), nil
	} else if err != nil && errors.Is(cause, deployments.ErrClaimLost) {
		return result, cause
	}
	return result, err
}

// renew keeps the claim as long as the build is made.
func (w *work) renew(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := w.report(ctx); errors.Is(err, deployments.ErrClaimLost) {
				cancel(err)
			}
		}
	}
}

func (w *work) report(ctx context.Context) error {
	return w.options.Store.ReportBuild(ctx, w.claim, w.record.progress())
}

// begin begins a step, and stores the progress of the build. Progress that can't be stored now is
// stored with the next step.
func (w *work) begin(ctx context.Context, step string) error {
	w.record.begin(step)
	if err := w.report(ctx); errors.Is(err, deployments.ErrClaimLost) {
		return err
	}
	return ctx.Err()
}

func (w *work) result(routes int) deployments.Result {
	return deployments.Result{Progress: w.record.progress(), Faults: w.record.buildFaults(), Routes: routes, Variables: w.variables}
}

// steps makes the steps, up to the first that has faults.
func (w *work) steps(ctx context.Context) (deployments.Result, error) {
	if err := w.begin(ctx, stepUnpack); err != nil {
		return deployments.Result{}, err
	}
	files, faults := folder.Unpack(ctx, w.claim.Format, w.claim.Archive)
	if err := ctx.Err(); err != nil {
		return deployments.Result{}, err
	}
	if len(faults) > 0 {
		w.record.faults(faults)
		return w.result(0), nil
	}
	w.record.addLine(contentsText(files, len(w.claim.Archive)))
	if err := w.begin(ctx, stepVariables); err != nil {
		return deployments.Result{}, err
	}
	if err := w.takeVariables(ctx); err != nil {
		return deployments.Result{}, err
	}
	if len(w.record.buildFaults()) > 0 {
		return w.result(0), nil
	}
	if err := w.begin(ctx, stepCheck); err != nil {
		return deployments.Result{}, err
	}
	compiled, faults, err := w.compile(ctx, files)
	if err != nil {
		return deployments.Result{}, err
	}
	if len(faults) > 0 {
		w.record.faults(faults)
	}
	if len(w.record.buildFaults()) > 0 {
		return w.result(0), nil
	}
	routes := compiled.Routes()
	for _, info := range routes {
		for _, note := range info.Notes {
			w.record.addLine(info.File + ": " + info.Operation + ": " + note)
		}
	}
	w.record.addLine(fmt.Sprintf("%s in %s", number(len(routes), "route"), number(compiled.Files(), "route file")))
	w.record.succeeded()
	return w.result(len(routes)), nil
}

// takeVariables takes the present variables of the branch.
func (w *work) takeVariables(ctx context.Context) error {
	b := &w.claim.Build
	variables, err := w.options.Store.VariablesOf(ctx, b.Account, b.Project, b.Branch, b.EnvironmentType)
	switch {
	case errors.Is(err, domain.ErrUnavailable), err != nil && ctx.Err() != nil:
		return fmt.Errorf("take variables: %w", err)
	case err != nil:
		w.options.Logger.Error("the variables of a branch can't be read", "build", b.ID, "deployment", b.Deployment, "error", err)
		w.record.faults(routefile.Faults{{Message: "the variables of the branch can't be read; who runs Waybill finds the reason in the gateway's log"}})
		return nil
	}
	w.variables = variables
	w.record.hideSecrets(variables)
	w.record.addLine(number(len(variables), "variable"))
	if w.claim.Before != nil {
		for _, line := range changedVariables(w.claim.Before, variables) {
			w.record.addLine(line)
		}
	}
	return nil
}

// changedVariables returns the names of the variables that differ from those of the active build.
func changedVariables(before map[string]domain.Secret, now []domain.Variable) []string {
	var added, changed, removed []string
	left := make(map[string]bool, len(now))
	for _, v := range now {
		left[v.Name] = true
		if old, there := before[v.Name]; !there {
			added = append(added, v.Name)
		} else if old != v.Value {
			changed = append(changed, v.Name)
		}
	}
	for name := range before {
		if !left[name] {
			removed = append(removed, name)
		}
	}
	slices.Sort(removed)
	var lines []string
	for _, kind := range []struct {
		word  string
		names []string
	}{{"new", added}, {"changed", changed}, {"removed", removed}} {
		if len(kind.names) > 0 {
			lines = append(lines, kind.word+" since the active build: "+strings.Join(kind.names, ", "))
		}
	}
	return lines
}

// compile makes the site in order to check the files; it is not served. When ctx ends, compile
// stops after the schema that it is compiling, which takes a few seconds at most.
func (w *work) compile(ctx context.Context, files fs.FS) (made *site.Site, faults site.Faults, err error) {
	values := make(map[string]domain.Secret, len(w.variables))
	for _, v := range w.variables {
		values[v.Name] = v.Value
	}
	defer func() {
		if value := recover(); value != nil {
			w.options.Logger.Error("checking route files has failed", "build", w.claim.Build.ID, "deployment", w.claim.Build.Deployment,
				"panic", fmt.Sprint(value), "stack", string(debug.Stack()))
			made, err = nil, nil
			faults = site.Faults{{Message: "the route files can't be checked; who runs Waybill finds the reason in the gateway's log"}}
		}
	}()
	rules := w.options.Rules
	if rules.Services, err = w.services(ctx); err != nil || len(w.record.buildFaults()) > 0 {
		return nil, nil, err
	}
	rules.Rest = tenant.NewPace(ctx)
	made, faults = rules.Compile(ctx, files, &w.claim.Build, values)
	return made, faults, ctx.Err()
}

// contentsText describes the contents of an archive.
func contentsText(files fs.FS, packed int) string {
	count, size := 0, int64(0)
	_ = fs.WalkDir(files, ".", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err == nil {
			count++
			size += info.Size()
		}
		return nil
	})
	return fmt.Sprintf("%s of %d bytes, in an archive of %d bytes", number(count, "file"), size, packed)
}

func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
