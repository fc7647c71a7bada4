package domains

import (
	"encoding/json"
	"fmt"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// The database numbers domains (seq).

type domainRow struct {
	Seq         int64  `gorm:"->"`
	ID          string `gorm:"primaryKey"`
	Account     string
	Hostname    string
	Deployment  string
	IsDefault   bool
	Token       string
	Answers     string
	Version     int64
	CreatedBy   string
	CreatedKey  string
	CreatedAt   store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt   store.Instant `gorm:"autoUpdateTime:false"`
	VerifiedAt  store.Instant
	CheckedAt   store.Instant
	NextCheckAt store.Instant
	RemovedAt   store.Instant
	ProvenAt    store.Instant
	NoticeAt    store.Instant
	LostAt      store.Instant
}

func (*domainRow) TableName() string { return "gateway_domains" }

type certificateRow struct {
	DomainID    string `gorm:"primaryKey"`
	Chain       string
	PrivateKey  []byte
	Fingerprint string
	NotAfter    store.Instant
	CreatedAt   store.Instant `gorm:"autoCreateTime:false"`
}

func (*certificateRow) TableName() string { return "gateway_domain_certificates" }

type acmeRow struct {
	Key        string `gorm:"primaryKey"`
	Value      []byte
	ModifiedAt store.Instant
}

func (*acmeRow) TableName() string { return "gateway_acme" }

type lockRow struct {
	Name      string `gorm:"primaryKey"`
	Owner     string
	ExpiresAt store.Instant
}

func (*lockRow) TableName() string { return "gateway_acme_locks" }

type stateRow struct {
	Hostname  string `gorm:"primaryKey"`
	NotAfter  store.Instant
	Error     string
	Failures  int64
	RetryAt   store.Instant
	UpdatedAt store.Instant `gorm:"autoUpdateTime:false"`
}

func (*stateRow) TableName() string { return "gateway_acme_states" }

// deploymentData has the data of a deployment that its domains show.
type deploymentData struct {
	Name            string
	Project         string
	Branch          string
	EnvironmentType string
}

func (r *domainRow) domain() (domain.CustomDomain, error) {
	d := domain.CustomDomain{
		ID: r.ID, Account: r.Account, Hostname: r.Hostname, Deployment: r.Deployment, IsDefault: r.IsDefault, Token: r.Token,
		CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(), VerifiedOn: r.VerifiedAt.Time(),
		CheckedOn: r.CheckedAt.Time(), NextCheckOn: r.NextCheckAt.Time(),
		ProvenOn: r.ProvenAt.Time(), NoticeOn: r.NoticeAt.Time(), LostOn: r.LostAt.Time(),
	}
	if r.Answers != "" {
		if err := json.Unmarshal([]byte(r.Answers), &d.Answers); err != nil {
			return d, fmt.Errorf("read answers of DNS: %w", err)
		}
	}
	return d, nil
}

func writeAnswers(answers []string) string {
	if len(answers) == 0 {
		return ""
	}
	text, _ := json.Marshal(answers) // texts can't fail
	return string(text)
}

// sealData binds a private key to its row and column.
func sealData(domainID string) []byte {
	return []byte("gateway_domain_certificates|private_key|" + domainID)
}
