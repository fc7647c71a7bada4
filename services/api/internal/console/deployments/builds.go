package deployments

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// maxBuilds is how many builds of a deployment a page has; few deployments have more.
const maxBuilds = 100

type buildsView struct {
	head

	Builds   []build
	NoBuilds *console.Problem // the reason why builds are missing
	Bucket   *string          // bucket of the keys for its routes; nil: not known
	Upload   string           // the command that makes the next build
	Refresh  bool             // something is under way
}

func showBuilds(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	p.CLI("deployments get " + console.Shell(d.Name))
	v := buildsView{head: headOf(p, d, "")}
	v.Upload = "waybill deploy config \\\n  --project " + console.Shell(d.ProjectName) + " --branch " + console.Shell(d.BranchName)
	var answer web.Listing[build]
	v.NoBuilds = p.API.Try(api(d.Name, "builds"), url.Values{"limit": {strconv.Itoa(maxBuilds)}}, &answer)
	v.Builds = answer.Data
	slices.SortFunc(v.Builds, func(a, b build) int { return cmp.Compare(b.Number, a.Number) }) // the newest first
	for _, b := range v.Builds {
		v.Refresh = v.Refresh || b.Open()
	}
	if !d.Local() {
		var environment deployments.Environment
		_ = p.API.Try(console.Path("v1", "environments", d.Name), nil, &environment)
		v.Bucket = environment.BucketName
	}
	return p.Show("deployment.html", title(d), v)
}

// Serves reports whether a build is the active one.
func (h head) Serves(b build) bool { return h.Deployment.Build != nil && h.Deployment.Build.ID == b.ID }

// MayServe reports whether a build can be built again: its archive was valid once.
func (h head) MayServe(b build) bool {
	return h.May && !h.Deployment.Local() && b.Status == domain.BuildSuccess
}

// step is a part of a build with its log.
type step struct {
	deployments.Step

	What  string
	Lines []line
}

// line is a line of the log, with the time since the first line of the build.
type line struct {
	domain.BuildLine

	After string
}

// Word returns one word for the result or the state of the step.
func (s step) Word() string {
	if s.Status == "" || s.Status == string(domain.BuildQueued) {
		return "waiting"
	}
	return word(domain.BuildStatus(s.Status))
}

// Tone returns the class of the step on the timeline.
func (s step) Tone() string {
	switch domain.BuildStatus(s.Status) {
	case domain.BuildSuccess:
		return "good"
	case domain.BuildError:
		return "bad"
	case domain.BuildBuilding:
		return "busy"
	case domain.BuildQueued:
	}
	return "next"
}

// Took returns how long the step took.
func (s step) Took() string { return took(s.StartedOn, s.FinishedOn) }

// faulty is a file with its faults.
type faulty struct {
	File   string
	Faults []domain.BuildFault
}

type buildView struct {
	head

	Build  build
	Known  bool // the file is in the list of the build
	Steps  []step
	NoLog  *console.Problem
	Files  []faulty
	Total  int // number of faults
	Routes int
}

func showBuild(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	id := p.Param("buildId")
	v := buildView{head: headOf(p, d, "-"), Build: build{deployments.Build{ID: id}}}
	v.Tabs = nil
	var logs deployments.Log
	path := api(d.Name, "builds", id, "logs")
	if err := p.API.Get(path, nil, &logs); err != nil {
		return err
	}
	p.CLI("deployments log " + console.Shell(d.Name) + " " + console.Shell(id))
	var builds web.Listing[build]
	_ = p.API.Try(api(d.Name, "builds"), url.Values{"limit": {strconv.Itoa(maxBuilds)}}, &builds)
	for _, b := range builds.Data {
		if b.ID == id {
			v.Build, v.Known = b, true
		}
	}
	var s deployments.Status
	if v.Build.StatusID != "" {
		_ = p.API.Try(console.Path("v1", "accounts", p.Account(), "projects", d.ProjectName, "deployment-status", v.Build.StatusID), nil, &s)
	}
	v.Steps, v.Routes = steps(s, logs.API), s.BuildResult.Routes
	v.Files = byFile(s.BuildResult.Errors, logs.API)
	for _, f := range v.Files {
		v.Total += len(f.Faults)
	}
	return p.Show("build.html", "Build of "+title(d), v)
}

// steps returns the parts of a build in the order of the work.
func steps(s deployments.Status, lines map[string][]domain.BuildLine) []step {
	var list []step
	var first time.Time
	for _, known := range []struct{ name, what string }{
		{"unpack", "Unpack the archive"}, {"variables", "Take the variables"}, {"check", "Check the routes"}, {"activate", "Serve it"},
	} {
		part := step{Step: s.Steps[known.name], What: known.what}
		for _, l := range lines[known.name] {
			if first.IsZero() {
				first = l.Timestamp
			}
			part.Lines = append(part.Lines, line{l, console.Offset(l.Timestamp.Sub(first))})
		}
		list = append(list, part)
	}
	return list
}

// byFile groups faults by their file, in the order of the build. If the build has no result, the
// faults come from the log.
func byFile(faults []domain.BuildFault, lines map[string][]domain.BuildLine) []faulty {
	if len(faults) == 0 {
		for _, part := range []string{"unpack", "variables", "check", "activate"} {
			for _, l := range lines[part] {
				if l.Level == "error" && l.File != "" {
					faults = append(faults, domain.BuildFault{File: l.File, Operation: l.Operation, Pointer: l.Pointer, Detail: l.Message})
				}
			}
		}
	}
	var files []faulty
	at := map[string]int{}
	for _, f := range faults {
		i, ok := at[f.File]
		if !ok {
			i = len(files)
			at[f.File] = i
			files = append(files, faulty{File: f.File})
		}
		files[i].Faults = append(files[i].Faults, f)
	}
	return files
}
