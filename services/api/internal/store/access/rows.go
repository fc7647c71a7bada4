package access

import (
	"encoding/json"
	"strings"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/keyholders"
)

// The database numbers the rows (seq).

type projectRow struct {
	Seq       int64  `gorm:"->"`
	ID        string `gorm:"primaryKey"`
	Account   string
	Name      string
	CreatedAt store.Instant `gorm:"autoCreateTime:false"`

	ProductionBranch string
}

func (projectRow) TableName() string { return "projects" }

func (r projectRow) domain() domain.Project {
	return domain.Project{ID: r.ID, Account: r.Account, Name: r.Name, CreatedOn: r.CreatedAt.Time(), ProductionBranch: r.ProductionBranch}
}

type bucketRow struct {
	Seq         int64  `gorm:"->"`
	ID          string `gorm:"primaryKey"`
	Account     string
	Name        string
	Description string
	Tags        string
	Retrievable bool
	CreatedAt   store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt   store.Instant `gorm:"autoUpdateTime:false"`
}

func (bucketRow) TableName() string { return "key_buckets" }

func (r bucketRow) domain() (domain.Bucket, error) {
	tags, err := splitTags(r.Tags)
	return domain.Bucket{
		ID: r.ID, Account: r.Account, Name: r.Name, Description: r.Description, Tags: tags,
		Retrievable: r.Retrievable, CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(),
	}, err
}

func bucketToRow(b domain.Bucket) (bucketRow, error) {
	tags, err := joinTags(b.Tags)
	return bucketRow{
		ID: b.ID, Account: b.Account, Name: b.Name, Description: b.Description, Tags: tags,
		Retrievable: b.Retrievable, CreatedAt: store.InstantOf(b.CreatedOn), UpdatedAt: store.InstantOf(b.UpdatedOn),
	}, err
}

type consumerRow struct {
	Seq         int64  `gorm:"->"`
	ID          string `gorm:"primaryKey"`
	BucketID    string
	Name        string
	Description string
	Tags        string
	Metadata    string
	Scopes      string
	CreatedAt   store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt   store.Instant `gorm:"autoUpdateTime:false"`
}

func (consumerRow) TableName() string { return "key_consumers" }

func (r consumerRow) domain(b bucketRow) (domain.Consumer, error) {
	tags, err := splitTags(r.Tags)
	c := domain.Consumer{
		ID: r.ID, Account: b.Account, Bucket: b.Name, Name: r.Name, Description: r.Description, Tags: tags,
		Scopes: keyholders.SplitScopes(r.Scopes), CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(),
	}
	if r.Metadata != "" {
		c.Metadata = json.RawMessage(r.Metadata)
	}
	return c, err
}

func consumerToRow(c domain.Consumer, bucketID string) (consumerRow, error) {
	tags, err := joinTags(c.Tags)
	return consumerRow{
		ID: c.ID, BucketID: bucketID, Name: c.Name, Description: c.Description, Tags: tags,
		Metadata: string(c.Metadata), Scopes: joinScopes(c.Scopes),
		CreatedAt: store.InstantOf(c.CreatedOn), UpdatedAt: store.InstantOf(c.UpdatedOn),
	}, err
}

func joinScopes(scopes []domain.Scope) string {
	texts := store.All(scopes, func(s domain.Scope) string { return string(s) })
	return strings.Join(texts, ",")
}

type apiKeyRow struct {
	Seq         int64  `gorm:"->"`
	ID          string `gorm:"primaryKey"`
	ConsumerID  string
	Description string
	ExpiresAt   store.Instant
	Suffix      string
	Hash        []byte
	Sealed      []byte
	CreatedAt   store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt   store.Instant `gorm:"autoUpdateTime:false"`
}

func (apiKeyRow) TableName() string { return "api_keys" }

type managerRow struct {
	Seq        int64  `gorm:"->"`
	ID         string `gorm:"primaryKey"`
	ConsumerID string
	Email      string
	Sub        string
	CreatedAt  store.Instant `gorm:"autoCreateTime:false"`
	AcceptedAt store.Instant
	InvitedBy  string // sub of the inviting caller
}

func (managerRow) TableName() string { return "key_managers" }

func (r managerRow) domain() domain.Manager {
	return domain.Manager{ID: r.ID, Email: r.Email, Sub: r.Sub, CreatedOn: r.CreatedAt.Time(), AcceptedOn: r.AcceptedAt.Time()}
}
