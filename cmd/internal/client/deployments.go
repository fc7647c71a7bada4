package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// uploading is how long an upload may take: the server waits for a body for a minute.
const uploading = 90 * time.Second

// Source is the target of an upload.
type Source struct{ Account, Project, Branch string }

// Accepted is a build that was accepted. URL is empty when the server does not know where
// its gateways answer; StatusID is empty of a deployment that has no builds.
type Accepted struct {
	StatusID       string `json:"statusId"`
	BuildID        string `json:"buildId"`
	DeploymentName string `json:"deploymentName"`
	URL            string `json:"url"`
}

// Upload sends an archive of the content type. sent, unless it is nil, is called with the number of
// bytes that were read for sending.
func (c *Client) Upload(ctx context.Context, to Source, contentType string, archive []byte, sent func(int64)) (Accepted, error) {
	query := url.Values{"accountName": {to.Account}, "projectName": {to.Project}, "branchName": {to.Branch}}
	body := &counted{Reader: bytes.NewReader(archive), read: sent}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/deployments/sources?"+query.Encode(), body)
	if err != nil {
		return Accepted{}, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Content-Type", contentType)
	request.ContentLength = int64(len(archive))
	patient := *c.http
	patient.Timeout = uploading
	answer, err := c.send(&patient, request)
	if err != nil {
		return Accepted{}, err
	}
	text, err := c.judge(answer)
	if err != nil {
		return Accepted{}, err
	}
	var accepted Accepted
	if json.Unmarshal(text, &accepted) != nil || accepted.StatusID == "" || accepted.DeploymentName == "" {
		return Accepted{}, c.stranger("it has no build")
	}
	return accepted, nil
}

// counted reports how much of a body was read.
type counted struct {
	io.Reader

	n    int64
	read func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.n += int64(n); c.read != nil {
		c.read(c.n)
	}
	return n, err
}

// Deployment is the running environment of a branch.
type Deployment struct {
	Name        string     `json:"name"`
	URL         string     `json:"url"`
	AccountName string     `json:"accountName"`
	ProjectName string     `json:"projectName"`
	BranchName  string     `json:"branchName"`
	Build       *BuildLine `json:"build"`     // the active build
	LastBuild   *BuildLine `json:"lastBuild"` // the newest build
}

// BuildLine is a build in a list.
type BuildLine struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	Status string `json:"status"`
}

// Deployment returns a deployment.
func (c *Client) Deployment(ctx context.Context, name string) (Deployment, error) {
	var d Deployment
	err := c.Call(ctx, http.MethodGet, "/v1/deployments/"+url.PathEscape(name), nil, &d)
	if err == nil && d.Name == "" {
		err = c.stranger("it has no deployment")
	}
	return d, err
}

// Builds lists the builds of a deployment that are kept.
func (c *Client) Builds(ctx context.Context, deployment string) ([]BuildLine, error) {
	var answer struct {
		Data []BuildLine `json:"data"`
	}
	err := c.Call(ctx, http.MethodGet, "/v1/deployments/"+url.PathEscape(deployment)+"/builds", nil, &answer)
	return answer.Data, err
}

// Redeploy builds a deployment again from the files of a build; empty: of the active one.
func (c *Client) Redeploy(ctx context.Context, name, build string) (Accepted, error) {
	body := map[string]string{}
	if build != "" {
		body["buildId"] = build
	}
	var accepted Accepted
	err := c.Call(ctx, http.MethodPost, "/v1/deployments/"+url.PathEscape(name)+"/deploy", body, &accepted)
	accepted.DeploymentName = name
	return accepted, err
}

// The statuses of an upload or a redeployment that has ended, and of a step that is under way.
const (
	DeploymentSuccess = "SUCCESS"
	DeploymentError   = "ERROR"
	StepBuilding      = "BUILDING"
)

// DeploymentStatus is the progress or result of an upload or a redeployment.
type DeploymentStatus struct {
	Status   string `json:"status"`
	URL      string `json:"url"`
	LocalURL string `json:"localUrl"` // only from `waybill dev`
	Steps    map[string]struct {
		Status string `json:"status"`
	} `json:"steps"`
	Result struct {
		BuildID string  `json:"buildId"`
		Routes  int     `json:"routes"`
		Errors  []Fault `json:"errors"`
	} `json:"buildResult"`
}

// Fault is one fault of an upload.
type Fault struct {
	File      string `json:"file"`
	Operation string `json:"operation,omitempty"`
	Pointer   string `json:"pointer,omitempty"`
	Detail    string `json:"detail"`
}

// DeploymentStatus returns the progress or result of an upload to a project.
func (c *Client) DeploymentStatus(ctx context.Context, account, project, id string) (DeploymentStatus, error) {
	var status DeploymentStatus
	path := fmt.Sprintf("/v1/accounts/%s/projects/%s/deployment-status/%s", url.PathEscape(account), url.PathEscape(project), url.PathEscape(id))
	err := c.Call(ctx, http.MethodGet, path, nil, &status)
	if err == nil && status.Status == "" {
		err = c.stranger("it has no status")
	}
	return status, err
}

// LogLine is a line of a build's log.
type LogLine struct {
	Timestamp time.Time `json:"timestamp"`
	Level     string    `json:"level"` // info, warn, error
	Message   string    `json:"message"`
	File      string    `json:"file"`
	Operation string    `json:"operation"`
	Pointer   string    `json:"pointer"`
}

// BuildLog returns the log of a build, by its steps and in the original order.
func (c *Client) BuildLog(ctx context.Context, deployment, build string) (steps map[string][]LogLine, text []byte, err error) {
	var log struct {
		API map[string][]LogLine `json:"api"`
	}
	text, err = c.Do(ctx, http.MethodGet, "/v1/deployments/"+url.PathEscape(deployment)+"/builds/"+url.PathEscape(build)+"/logs", nil)
	if err == nil && json.Unmarshal(text, &log) != nil {
		err = c.stranger("it has no log")
	}
	return log.API, text, err
}

// MayPass reports whether err may disappear soon: there was no answer, or the server says that it
// is unavailable.
func MayPass(err error) bool {
	problem, ok := errors.AsType[*Problem](err)
	return !ok || problem.Status >= http.StatusInternalServerError || problem.Status == http.StatusTooManyRequests
}
