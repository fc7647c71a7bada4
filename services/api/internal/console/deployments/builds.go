package deployments

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/shared/domain"
)

// maxBuilds is how many builds of a deployment a page has; more are hardly kept.
const maxBuilds = 100

type buildsView struct {
	head

	Builds   []build
	NoBuilds *console.Problem // why there are none
	Bucket   string           // of the keys that its routes take; empty: not known
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
	var answer page[build]
	v.NoBuilds = p.API.Try(api(d.Name, "builds"), url.Values{"limit": {strconv.Itoa(maxBuilds)}}, &answer)
	v.Builds = answer.Data
	slices.SortFunc(v.Builds, func(a, b build) int { return cmp.Compare(b.Number, a.Number) }) // the newest first
	for _, b := range v.Builds {
		v.Refresh = v.Refresh || b.Open()
	}
	if !d.Local() {
		var environment struct {
			BucketName string `json:"bucketName"`
		}
		_ = p.API.Try(console.Path("v1", "environments", d.Name), nil, &environment)
		v.Bucket = environment.BucketName
	}
	return p.Show("deployment.html", title(d), v)
}

// Serves reports whether a build is the one that is served.
func (h head) Serves(b build) bool { return h.Deployment.Build != nil && h.Deployment.Build.ID == b.ID }

// MayServe reports whether a build can be built anew: its archive was good once.
func (h head) MayServe(b build) bool {
	return h.May && !h.Deployment.Local() && b.Status == string(domain.BuildSuccess)
}

// line is a line of a build's log.
type line struct {
	Timestamp string `json:"timestamp"`
	Level     string `json:"level"`
	Message   string `json:"message"`
	File      string `json:"file"`
	Operation string `json:"operation"`
	Pointer   string `json:"pointer"`
}

// step is a part of a build with what it wrote.
type step struct {
	Name, What                    string
	Status, StartedOn, FinishedOn string
	Lines                         []line
}

// Word says in a word how the step ended, or where it is.
func (s step) Word() string {
	if s.Status == "" || s.Status == string(domain.BuildQueued) {
		return "waiting"
	}
	return build{Status: s.Status}.Word()
}

// Tone is the class of the step on the line of time.
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

// Took is how long the step took.
func (s step) Took() string { return took(s.StartedOn, s.FinishedOn) }

// faulty is a file with what is wrong in it.
type faulty struct {
	File   string
	Faults []fault
}

type fault struct {
	File      string `json:"file"`
	Operation string `json:"operation"`
	Pointer   string `json:"pointer"`
	Detail    string `json:"detail"`
}

type buildView struct {
	head

	Build  build
	Known  bool // the build is in the list
	Steps  []step
	NoLog  *console.Problem
	Files  []faulty
	Total  int // of the faults
	Routes int
}

// status is what a build's status says.
type status struct {
	Status string `json:"status"`
	Steps  map[string]struct {
		Status     string `json:"status"`
		StartedOn  string `json:"startedOn"`
		FinishedOn string `json:"finishedOn"`
	} `json:"steps"`
	BuildResult struct {
		Routes int     `json:"routes"`
		Errors []fault `json:"errors"`
	} `json:"buildResult"`
}

func showBuild(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	id := p.Param("buildId")
	v := buildView{head: headOf(p, d, "-"), Build: build{ID: id}}
	v.Tabs = nil
	var logs map[string]jsontext.Value
	path := api(d.Name, "builds", id, "logs")
	if err := p.API.Get(path, nil, &logs); err != nil {
		return err
	}
	p.CLI("deployments log " + console.Shell(d.Name) + " " + console.Shell(id))
	lines := map[string][]line{}
	if raw, ok := logs["api"]; ok && json.Unmarshal(raw, &lines) != nil {
		lines = nil
	}
	var builds page[build]
	_ = p.API.Try(api(d.Name, "builds"), url.Values{"limit": {strconv.Itoa(maxBuilds)}}, &builds)
	for _, b := range builds.Data {
		if b.ID == id {
			v.Build, v.Known = b, true
		}
	}
	var s status
	if v.Build.StatusID != "" {
		_ = p.API.Try(console.Path("v1", "accounts", p.Account(), "projects", d.ProjectName, "deployment-status", v.Build.StatusID), nil, &s)
	}
	v.Steps, v.Routes = steps(s, lines), s.BuildResult.Routes
	v.Files = byFile(s.BuildResult.Errors, lines)
	for _, f := range v.Files {
		v.Total += len(f.Faults)
	}
	return p.Show("build.html", "Build of "+title(d), v)
}

// steps returns the parts of a build in the order of the work.
func steps(s status, lines map[string][]line) []step {
	var list []step
	for _, known := range []struct{ name, what string }{
		{"unpack", "Unpack the archive"}, {"variables", "Take the variables"}, {"check", "Check the routes"}, {"activate", "Serve it"},
	} {
		one := s.Steps[known.name]
		list = append(list, step{known.name, known.what, one.Status, one.StartedOn, one.FinishedOn, lines[known.name]})
	}
	return list
}

// byFile sorts what is wrong by the file that it is in, in the order of the build. Without a result
// it goes by the log.
func byFile(faults []fault, lines map[string][]line) []faulty {
	if len(faults) == 0 {
		for _, part := range []string{"unpack", "variables", "check", "activate"} {
			for _, l := range lines[part] {
				if l.Level == "error" && l.File != "" {
					faults = append(faults, fault{l.File, l.Operation, l.Pointer, l.Message})
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
