package domain

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"regexp"
	"strings"
	"time"
)

// EnvironmentType is the role of a branch in its project.
type EnvironmentType string

// The types of environments.
const (
	Production  EnvironmentType = "production"
	Preview     EnvironmentType = "preview"
	Development EnvironmentType = "development"
)

// Names of branches with a meaning in all projects.
const (
	DefaultProductionBranch = "main"
	WorkingCopy             = "working-copy" // the branch of the development environment
	// PreviewBranch has the variables that all preview branches use. No git branch can have this
	// name, and no deployment has it.
	PreviewBranch = "~preview"
)

// EnvironmentTypeOf returns the role of a branch in a project with this production branch.
func EnvironmentTypeOf(branch, productionBranch string) EnvironmentType {
	switch branch {
	case productionBranch:
		return Production
	case WorkingCopy:
		return Development
	}
	return Preview
}

// Bucket returns the end of the name of the project's key bucket for such environments.
func (t EnvironmentType) Bucket() string {
	if t == Development {
		return WorkingCopy
	}
	return string(t)
}

// DeploymentState says what a deployment serves.
type DeploymentState string

// The states of a deployment.
const (
	DeploymentBuilding DeploymentState = "BUILDING" // no build has succeeded yet
	DeploymentStarted  DeploymentState = "STARTED"  // it serves its active build
	DeploymentErrored  DeploymentState = "ERRORED"  // no build has succeeded, and the last one failed
)

// BuildStatus is the status of a build.
type BuildStatus string

// The statuses of a build.
const (
	BuildQueued   BuildStatus = "QUEUED"
	BuildBuilding BuildStatus = "BUILDING"
	BuildSuccess  BuildStatus = "SUCCESS"
	BuildError    BuildStatus = "ERROR"
)

// Deployment is the running environment of one branch. Its name stays the same from upload
// to upload.
type Deployment struct {
	Name            string
	Account         string
	Project         string
	Branch          string
	EnvironmentType EnvironmentType
	State           DeploymentState
	Message         string // why the newest build does not serve; empty: it serves, or is in progress
	// ActiveBuild is the id of the build that is served; empty: none.
	ActiveBuild string
	// VariablesChangedOn is when a variable changed after the active build was made; zero: none changed.
	VariablesChangedOn   time.Time
	CreatedOn, UpdatedOn time.Time
	CreatedBy            string // the caller's sub
	// Version is the version of everything that gateways serve at the last change of this deployment.
	Version int64
	Removed bool
}

// DeploymentSource is an archive of route files, or the permission to upload one.
type DeploymentSource struct {
	// ID is a UUID that sorts by time. It is the status id of the first build that is made of the source.
	ID                       string
	Account, Project, Branch string
	Deployment               string // its name; it need not exist yet
	CreatedOn                time.Time
	Uploaded                 bool
}

// ArchiveFormat says how an archive is packed.
type ArchiveFormat string

// The formats of archives.
const (
	ArchiveZip   ArchiveFormat = "zip"
	ArchiveTarGz ArchiveFormat = "tar.gz"
)

// BuildStep is a part of a build, in the order of the work: unpack, variables, check, activate.
type BuildStep struct {
	Name       string      `json:"name"`
	Status     BuildStatus `json:"status"`
	StartedOn  time.Time   `json:"startedOn,omitzero"`
	FinishedOn time.Time   `json:"finishedOn,omitzero"`
}

// BuildFault is one fault in the uploaded files.
type BuildFault struct {
	File      string `json:"file"`
	Operation string `json:"operation,omitzero"`
	Pointer   string `json:"pointer,omitzero"`
	Detail    string `json:"detail"`
}

// BuildLine is one line of a build's log.
type BuildLine struct {
	Step      string    `json:"step"`
	Timestamp time.Time `json:"timestamp"`
	Level     string    `json:"level"` // info, warn, error
	Message   string    `json:"message"`
	File      string    `json:"file,omitzero"`
	Operation string    `json:"operation,omitzero"`
	Pointer   string    `json:"pointer,omitzero"`
}

// Build is the result of one upload or redeployment.
type Build struct {
	ID              string // a UUID that sorts by time
	StatusID        string // a UUID
	Deployment      string
	Account         string
	Project         string
	Branch          string
	Number          int64 // 1, 2, 3 of the deployment
	SourceID        string
	EnvironmentType EnvironmentType
	Status          BuildStatus
	CreatedOn       time.Time
	CreatedBy       string // the caller's sub
	FinishedOn      time.Time
	ActivatedOn     time.Time // zero: the build was never active
	Routes          int
	Steps           []BuildStep
	Faults          []BuildFault
}

// Variable is the value of $env(NAME) in the route files of a branch.
type Variable struct {
	Account, Project, Branch string
	Name                     string
	Secret                   bool
	Value                    Secret // empty where a secret variable is shown
	CreatedOn, UpdatedOn     time.Time
}

// Bounds of deployments.
const (
	MaxDeployments = 10_000  // of an account
	MaxArchive     = 8 << 20 // bytes
	MaxOpenBuilds  = 100     // of an account: builds that wait or are in progress
	KeptBuilds     = 20      // of a deployment: the newest ones, and the active one
	// UploadTime is how long an archive may be uploaded to its URL.
	UploadTime = 15 * time.Minute
)

// Bounds of variables.
const (
	MaxVariables     = 100  // of a branch
	MaxVariableValue = 5120 // bytes
)

// MaxBranch is how many characters a branch's name may have.
const MaxBranch = 100

// ErrBranch says what is wrong with a branch.
var ErrBranch = errors.New("must be 1 to 100 characters of A-Z a-z 0-9 . _ / -, the first one a letter or a digit")

var (
	branchForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$`)
	variableForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
)

// CheckBranch returns ErrBranch if a deployment's branch can't have the name.
func CheckBranch(branch string) error {
	if !branchForm.MatchString(branch) {
		return ErrBranch
	}
	return nil
}

// ValidVariableName reports whether a variable may have the name. Names that begin with WAYBILL_
// are reserved for Waybill.
func ValidVariableName(name string) bool {
	return variableForm.MatchString(name) && !strings.HasPrefix(name, "WAYBILL_")
}

// The parts of a deployment's name.
const (
	projectSlug = 30
	branchSlug  = 20
	nameHash    = 10
)

// DeploymentName returns the name of the deployment of a branch: one DNS
// label, known before the first upload.
func DeploymentName(account, project, branch string) string {
	sum := sha256.Sum256([]byte(account + "\x00" + project + "\x00" + branch))
	hash := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
	return slug(project, projectSlug) + "-" + slug(branch, branchSlug) + "-" + hash[:nameHash]
}

// slug returns text in lower case, with one hyphen for every run of characters other than ASCII
// letters and digits, and none at the ends.
func slug(text string, length int) string {
	parts := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	made := strings.TrimLeft(strings.TrimPrefix(strings.Join(parts, "-"), "xn"), "-")
	made = strings.TrimRight(made[:min(len(made), length)], "-")
	if made == "" {
		return "d"
	}
	return made
}
