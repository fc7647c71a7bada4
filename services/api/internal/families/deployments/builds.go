package deployments

import (
	"net/http"
	"slices"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store/deployments"
)

// stepNames are the steps of a build, in their order.
func stepNames() []string { return []string{"unpack", "variables", "check", "activate"} }

// stepSkipped is the status of a step that an ended build has not come to.
const stepSkipped = "SKIPPED"

// Status is the progress of a build.
type Status struct {
	Status      string          `json:"status"`
	URL         string          `json:"url"`
	LocalURL    string          `json:"localUrl,omitempty"`
	Steps       map[string]Step `json:"steps"`
	BuildResult BuildResult     `json:"buildResult"`
}

// Step is a part of a build.
type Step struct {
	Status     string  `json:"status"`
	StartedOn  *string `json:"startedOn"`
	FinishedOn *string `json:"finishedOn"`
}

// BuildResult is the result of a build.
type BuildResult struct {
	BuildID *string             `json:"buildId"`
	Routes  int                 `json:"routes"`
	Errors  []domain.BuildFault `json:"errors"`
}

// The statuses of an upload or a redeployment.
const (
	inProgress = "IN_PROGRESS"
	succeeded  = "SUCCESS"
	failed     = "ERROR"
)

func (h *handlers) status(c *web.Call) error {
	account := c.Account()
	if err := c.Check(); err != nil {
		return err
	}
	status, err := h.Builds.GetStatus(c.Context(), account, c.Param("projectName"), c.Param("statusId"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, h.viewStatus(status, time.Now()))
}

// viewStatus returns the status of a build, or of an archive that has not arrived yet.
func (h *handlers) viewStatus(s deployments.Status, now time.Time) Status {
	v := Status{
		Status: inProgress, URL: h.url(s.Source.Deployment), LocalURL: h.localURL(s.Source.Deployment), Steps: map[string]Step{},
		BuildResult: BuildResult{Errors: []domain.BuildFault{}},
	}
	var steps []domain.BuildStep
	if b := s.Build; b == nil {
		if !now.Before(s.Source.CreatedOn.Add(domain.UploadTime)) {
			v.Status = failed
			v.BuildResult.Errors = []domain.BuildFault{{Detail: "No archive was uploaded while the URL for it was valid."}}
		}
	} else {
		switch b.Status {
		case domain.BuildSuccess:
			v.Status = succeeded
		case domain.BuildError:
			v.Status = failed
		}
		v.BuildResult.BuildID, v.BuildResult.Routes, steps = &b.ID, b.Routes, b.Steps
		v.BuildResult.Errors = append(v.BuildResult.Errors, b.Faults...)
	}
	rest := Step{Status: string(domain.BuildQueued)}
	if v.Status != inProgress {
		rest.Status = stepSkipped
	}
	for _, name := range stepNames() {
		v.Steps[name] = rest
	}
	for _, step := range steps {
		v.Steps[step.Name] = Step{Status: string(step.Status), StartedOn: web.Stamp(step.StartedOn), FinishedOn: web.Stamp(step.FinishedOn)}
	}
	return v
}

func (h *handlers) builds(c *web.Call) error {
	name, page := c.Param("deploymentName"), c.Page()
	if err := c.Check(); err != nil {
		return err
	}
	if h.Local.is(c.Principal.Account, name) {
		return web.AnswerList(c, page, 0, nil, viewBuild)
	}
	builds, total, err := h.Builds.ListBuilds(c.Context(), c.Principal.Account, name, page)
	if err != nil {
		return missing(err, "deployment")
	}
	return web.AnswerList(c, page, total, builds, viewBuild)
}

// The stages of a build. The stages of developer portals have no steps here.
const (
	stageAPI    = "api"
	stagePortal = "dev-portal"
)

// Log has an entry for each stage that was asked for.
type Log struct {
	API       map[string][]domain.BuildLine `json:"api,omitzero"`
	DevPortal map[string][]domain.BuildLine `json:"devPortal,omitzero"`
}

func (h *handlers) logs(c *web.Call) error {
	name, id, q := c.Param("deploymentName"), c.Param("buildId"), c.Query()
	stage := input.OneOf(q, "stage", []string{stageAPI, stagePortal})
	step := input.OneOf(q, "step", stepNames())
	if _, given := q.Text("stage"); step != "" && !given {
		q.Fault("step", "needs a stage")
	}
	if err := c.Check(); err != nil {
		return err
	}
	lines, err := h.Builds.BuildLog(c.Context(), c.Principal.Account, name, id)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, viewLog(lines, stage, step))
}

// viewLog groups the lines by steps. All steps are included; an empty stage or step selects all.
func viewLog(lines []domain.BuildLine, stage, step string) Log {
	var v Log
	if stage == stagePortal {
		v.DevPortal = map[string][]domain.BuildLine{}
		return v
	}
	v.API = map[string][]domain.BuildLine{}
	for _, name := range stepNames() {
		if step == "" || step == name {
			v.API[name] = []domain.BuildLine{}
		}
	}
	for _, line := range lines {
		line.Timestamp = line.Timestamp.UTC().Truncate(time.Millisecond)
		if of, ok := v.API[line.Step]; ok {
			v.API[line.Step] = append(slices.Clip(of), line)
		}
	}
	return v
}
