package uploads

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
)

// Project is the project that a Deployer makes.
const (
	Project = "releases"
	branch  = "main"
)

// Deployer deploys releases to one installation.
type Deployer struct {
	client *client.Client
	to     client.Source
}

// NewDeployer makes the project on an installation.
func NewDeployer(ctx context.Context, access client.Access) (*Deployer, error) {
	c, err := client.New(access)
	if err != nil {
		return nil, err
	}
	d := &Deployer{client: c}
	account, err := c.Account(ctx)
	if err != nil {
		return nil, err
	}
	d.to = client.Source{Account: account, Project: Project, Branch: branch}
	if _, err := c.Do(ctx, http.MethodPost, "/v1/projects", []byte(`{"name":"`+Project+`"}`)); err != nil {
		return nil, fmt.Errorf("make a project: %w", err)
	}
	return d, nil
}

// Close closes the deployer's connections.
func (d *Deployer) Close() { d.client.Close() }

// On returns a deployer for another branch, which shares this one's connections.
func (d *Deployer) On(branch string) *Deployer {
	other := *d
	other.to.Branch = branch
	return &other
}

// Upload uploads a release. If the installation can't take the release now, Upload tries again
// until ctx is done. An upload whose answer was lost is then stored twice.
func (d *Deployer) Upload(ctx context.Context, n, padding int) (accepted client.Accepted, err error) {
	archive, err := Release(n, padding)
	if err != nil {
		return accepted, err
	}
	err = patiently(ctx, func() error {
		accepted, err = d.client.Upload(ctx, d.to, "application/zip", archive, nil)
		return err
	})
	if err != nil {
		return accepted, fmt.Errorf("upload release %d: %w", n, err)
	}
	return accepted, nil
}

// Try uploads the archive of a release once. The error of a refused upload is a *client.Problem.
func (d *Deployer) Try(ctx context.Context, archive []byte) error {
	_, err := d.client.Upload(ctx, d.to, "application/zip", archive, nil)
	return err
}

// Redeploy builds the deployment anew from the files of a build.
func (d *Deployer) Redeploy(ctx context.Context, deployment, build string) (client.Accepted, error) {
	return d.client.Redeploy(ctx, deployment, build)
}

// Status returns what became of an upload.
func (d *Deployer) Status(ctx context.Context, accepted client.Accepted) (client.DeploymentStatus, error) {
	return d.client.DeploymentStatus(ctx, d.to.Account, d.to.Project, accepted.StatusID)
}

// Deployment returns the deployment.
func (d *Deployer) Deployment(ctx context.Context, name string) (client.Deployment, error) {
	return d.client.Deployment(ctx, name)
}

// Await waits until a build has ended well.
func (d *Deployer) Await(ctx context.Context, accepted client.Accepted) error {
	status, err := d.End(ctx, accepted)
	if err == nil && status.Status != client.DeploymentSuccess {
		err = fmt.Errorf("build %s: %s %+v", accepted.BuildID, status.Status, status.Result.Errors)
	}
	return err
}

// End waits until a build has ended.
func (d *Deployer) End(ctx context.Context, accepted client.Accepted) (status client.DeploymentStatus, err error) {
	begun := time.Now()
	waited := stack.Await(ctx, func() (bool, error) {
		status, err = d.Status(ctx, accepted)
		if err != nil {
			return false, passing(err)
		}
		return status.Status == client.DeploymentSuccess || status.Status == client.DeploymentError, nil
	})
	if waited != nil {
		return status, fmt.Errorf("wait for build %s, which is %s after %s: %w (%w)", accepted.BuildID, status.Status, time.Since(begun).Round(time.Millisecond), waited, err)
	}
	return status, nil
}

// passing returns err unless it may be over soon.
func passing(err error) error {
	if err == nil || client.MayPass(err) {
		return nil
	}
	return err
}

// betweenTries is long enough for refused uploads not to use up what an account may upload.
const betweenTries = 500 * time.Millisecond

// patiently tries until do succeeds, fails for good, or ctx is done.
func patiently(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || passing(err) != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(betweenTries):
		}
	}
}
