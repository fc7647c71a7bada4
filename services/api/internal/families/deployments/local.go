package deployments

import (
	"net/http"
	"strings"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/deployments"
)

// LocalName is the name, the project and the branch of the deployment that stands for a process's own
// folder of route files. It belongs to the default account.
const LocalName = domain.LocalDeployment

// maxMessage bounds the message of a deployment about the faults in the folder, in bytes.
const maxMessage = 2048

// Local are the routes of this process's own folder.
type Local struct {
	State func() LocalState
	// Reload reads the folder again. If there are faults, the old routes stay.
	Reload func() ([]LocalFault, error)
}

// LocalState is the state of the folder's routes.
type LocalState struct {
	Loaded time.Time
	// Faults are the faults of the folder as it is now; none: the folder is what is served.
	Faults   []LocalFault
	FaultsAt time.Time
}

// LocalFault is one fault of the files.
type LocalFault struct{ File, Operation, Pointer, Message string }

func (f LocalFault) detail() string {
	place := f.File
	if f.Operation != "" {
		place += " " + f.Operation
	}
	if place == "" {
		return f.Message
	}
	return place + ": " + f.Message
}

// is reports whether a name is the local deployment's, to this account. Only the default account has one.
func (l *Local) is(account, name string) bool {
	return l != nil && name == LocalName && account == domain.DefaultAccount
}

// in returns local if the filter matches it.
func (l *Local) in(f deployments.Filter) []LocalState {
	if !l.is(f.Account, f.Project) || f.Branch != "" && f.Branch != LocalName || f.EnvironmentType != "" && f.EnvironmentType != domain.Production || !strings.Contains(LocalName, strings.ToLower(f.Search)) {
		return nil
	}
	return []LocalState{l.State()}
}

// onlyIn reports whether err says that the project does not exist, although it is the project of local.
func (l *Local) onlyIn(f deployments.Filter, err error) bool {
	return isMissing(err) && l.is(f.Account, f.Project)
}

func (h *handlers) localView(c *web.Call, s LocalState) Deployment {
	v := Deployment{
		Name: LocalName, URL: c.WholeLink(""), Label: LocalName, URLParameter: LocalName, LoggingID: LocalName,
		AccountName: domain.DefaultAccount, ProjectName: LocalName, BranchName: LocalName, EnvironmentType: domain.Production,
		CreatedOn: web.Stamp(s.Loaded), UpdatedOn: web.Stamp(s.Loaded), State: domain.DeploymentStarted,
	}
	if len(s.Faults) > 0 {
		details := make([]string, len(s.Faults))
		for i, f := range s.Faults {
			details[i] = f.detail()
		}
		v.UpdatedOn = web.Stamp(s.FaultsAt)
		v.Message = domain.CutText("The folder has faults, and what was there before is served: "+strings.Join(details, "; "), maxMessage)
	}
	return v
}

// reload reads the folder again.
func (h *handlers) reload(c *web.Call, buildID string) error {
	if buildID != "" {
		return missing(domain.ErrNotFound, "build")
	}
	faults, err := h.Local.Reload()
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		p := problem.New(problem.Conflict, "The folder has faults, so what was there before is served; see errors.")
		for _, f := range faults[:min(len(faults), problem.MaxFaults)] {
			p.Faults = append(p.Faults, problem.Fault{Pointer: f.Pointer, Detail: f.detail()})
		}
		return p
	}
	if err := h.Deployments.NoteReload(c.Context(), domain.DefaultAccount, LocalName); err != nil {
		return err
	}
	return c.Answer(http.StatusAccepted, Redeployed{Status: enqueued})
}
