package deployments

import (
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

type versionRow struct {
	ID      int64 `gorm:"primaryKey"`
	Version int64
}

func (versionRow) TableName() string { return "gateway_version" }

// The database numbers deployments and variables (seq).

type deploymentRow struct {
	Seq                int64  `gorm:"->"`
	Name               string `gorm:"primaryKey"`
	Account            string
	Project            string
	Branch             string
	EnvironmentType    string
	State              string
	Message            string
	ActiveBuild        string
	ActiveNumber       int64
	LastNumber         int64
	VariablesChangedAt store.Instant
	Version            int64
	CreatedAt          store.Instant `gorm:"autoCreateTime:false"`
	CreatedBy          string
	UpdatedAt          store.Instant `gorm:"autoUpdateTime:false"`
	RemovedAt          store.Instant
}

func (*deploymentRow) TableName() string { return "gateway_deployments" }

type sourceRow struct {
	ID         string `gorm:"primaryKey"`
	Account    string
	Project    string
	Branch     string
	Deployment string
	Format     string
	Size       int64
	Archive    []byte
	CreatedAt  store.Instant `gorm:"autoCreateTime:false"`
	CreatedBy  string
	CreatedKey string
	UploadedAt store.Instant
	FailedAt   store.Instant
}

func (sourceRow) TableName() string { return "gateway_sources" }

type buildRow struct {
	ID              string `gorm:"primaryKey"`
	StatusID        string
	Deployment      string
	Account         string
	Project         string
	Branch          string
	Number          int64
	SourceID        string
	EnvironmentType string
	Status          string
	CreatedAt       store.Instant `gorm:"autoCreateTime:false"`
	CreatedBy       string
	CreatedKey      string
	RequestID       string
	Claims          int
	Owner           string
	LeaseUntil      store.Instant
	StartedAt       store.Instant
	FinishedAt      store.Instant
	ActivatedAt     store.Instant
	Routes          int64
	Variables       []byte
	Steps           string
	Faults          string
	Log             string
}

func (*buildRow) TableName() string { return "gateway_builds" }

type turnRow struct {
	Account string `gorm:"primaryKey"`
	Turn    int64
}

func (turnRow) TableName() string { return "gateway_turns" }

type variableRow struct {
	Seq       int64  `gorm:"->"`
	Account   string `gorm:"primaryKey"`
	Project   string `gorm:"primaryKey"`
	Branch    string `gorm:"primaryKey"`
	Name      string `gorm:"primaryKey"`
	Secret    bool
	Sealed    []byte
	CreatedAt store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt store.Instant `gorm:"autoUpdateTime:false"`
}

func (variableRow) TableName() string { return "gateway_variables" }

// domain returns the variable without its value.
func (r variableRow) domain() domain.Variable {
	return domain.Variable{
		Account: r.Account, Project: r.Project, Branch: r.Branch, Name: r.Name, Secret: r.Secret,
		CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(),
	}
}
