package httpapi

import (
	"context"
	"time"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// accountStore is what the handlers of accounts, projects and the audit log ask of the
// database.
type accountStore interface {
	CreateAccount(ctx context.Context, name string, key domain.APIKey) (domain.Account, domain.APIKey, error)
	ListAccounts(ctx context.Context, page store.Page) ([]domain.Account, int, error)
	CreateAdminKey(ctx context.Context, account string, key domain.APIKey) (domain.APIKey, error)
	GetAccount(ctx context.Context, name string) (domain.Account, error)
	CreateProject(ctx context.Context, account, name string) (domain.Project, error)
	GetProject(ctx context.Context, account, name string) (domain.Project, error)
	ListProjects(ctx context.Context, account string, page store.Page) ([]domain.Project, int, error)
	ListAudit(ctx context.Context, filter auditlog.AuditFilter) ([]domain.AuditEntry, int, error)
}

// bucketStore is what the handlers of buckets ask of the database.
type bucketStore interface {
	CreateBucket(ctx context.Context, b domain.Bucket) (domain.Bucket, error)
	ListBuckets(ctx context.Context, account string, tags map[string]string, page store.Page) ([]domain.Bucket, int, error)
	GetBucket(ctx context.Context, ref access.BucketRef) (domain.Bucket, error)
	UpdateBucket(ctx context.Context, ref access.BucketRef, change func(*domain.Bucket) error) (domain.Bucket, error)
	DeleteBucket(ctx context.Context, ref access.BucketRef) error
}

// consumerStore is what the handlers of consumers and managers ask of the database.
type consumerStore interface {
	CreateConsumer(ctx context.Context, c domain.Consumer, managers []domain.Manager, keys []domain.APIKey) (access.ConsumerView, error)
	ListConsumers(ctx context.Context, account, bucket string, filter access.ConsumerFilter, with access.Parts) ([]access.ConsumerView, int, error)
	GetConsumer(ctx context.Context, ref access.ConsumerRef, with access.Parts) (access.ConsumerView, error)
	UpdateConsumer(ctx context.Context, ref access.ConsumerRef, change func(*domain.Consumer) error) (domain.Consumer, error)
	DeleteConsumer(ctx context.Context, ref access.ConsumerRef) error
	CreateManager(ctx context.Context, ref access.ConsumerRef, m domain.Manager) (domain.Manager, error)
	ListManagers(ctx context.Context, ref access.ConsumerRef, page store.Page) ([]domain.Manager, int, error)
	GetManager(ctx context.Context, ref access.ConsumerRef, id string) (domain.Manager, error)
	DeleteManager(ctx context.Context, ref access.ConsumerRef, id string) error
}

// keyStore is what the handlers of keys ask of the database.
type keyStore interface {
	CreateKeys(ctx context.Context, ref access.ConsumerRef, keys []domain.APIKey) ([]domain.APIKey, error)
	ListKeys(ctx context.Context, ref access.ConsumerRef, secrets bool, page store.Page) ([]domain.APIKey, int, error)
	GetKey(ctx context.Context, ref access.ConsumerRef, id string, secrets bool) (domain.APIKey, error)
	UpdateKey(ctx context.Context, ref access.ConsumerRef, id string, change func(*domain.APIKey) error) (domain.APIKey, error)
	DeleteKey(ctx context.Context, ref access.ConsumerRef, id string) error
	RollKeys(ctx context.Context, ref access.ConsumerRef, fresh domain.APIKey, expiresOn time.Time) (domain.APIKey, error)
}
