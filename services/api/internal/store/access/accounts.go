package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// adminName is the name of the bucket and of the consumer that a new account begins with.
const adminName = "admin"

// CreateAccount makes an account with a bucket admin, which is not retrievable, in it a
// consumer admin with all rights, and its key. ErrConflict: there is an account of that
// name.
func (s *Store) CreateAccount(ctx context.Context, name string, key domain.APIKey) (domain.Account, domain.APIKey, error) {
	var row accountRow
	var created []domain.APIKey
	err := s.tx(ctx, func(tx *gorm.DB) error {
		now := s.clock()
		row = accountRow{ID: newID(prefixAccount, idLength), Name: name, CreatedAt: instantOf(now)}
		if err := tx.Create(&row).Error; err != nil {
			return fmt.Errorf("insert account: %w", err)
		}
		bucket, err := insertBucket(tx, domain.Bucket{Account: name, Name: adminName}, now)
		if err != nil {
			return err
		}
		consumer, err := insertConsumer(tx, bucket, domain.Consumer{Name: adminName, Scopes: []domain.Scope{domain.ScopeAdmin}}, now)
		if err != nil {
			return err
		}
		if created, err = s.insertKeys(tx, bucket, consumer.ID, []domain.APIKey{key}, now); err != nil {
			return err
		}
		return s.note(ctx, tx, ActionCreateAccount, "", domain.Resource{Type: ResourceAccount, ID: row.ID, Name: name})
	})
	if err != nil {
		return domain.Account{}, domain.APIKey{}, wrap("create account", err)
	}
	return row.domain(), created[0], nil
}

// CreateAdminKey stores another admin key of an account, for when the others are lost: in the
// bucket admin, as the consumer admin. What of these is missing is made as CreateAccount makes
// it. A consumer of that name whose scopes were taken away does not get them back, since keys
// of it may be in other hands: then it is admin-2, and so on. Both the account and the caller's
// own are told in the audit log. ErrNotFound: there is no such account.
func (s *Store) CreateAdminKey(ctx context.Context, account string, key domain.APIKey) (domain.APIKey, error) {
	var created []domain.APIKey
	err := s.tx(ctx, func(tx *gorm.DB) error {
		// One at a time: what is missing is made once.
		if _, err := takeAccount(s.locked(tx, lockChange), account); err != nil {
			return err
		}
		now := s.clock()
		bucket, _, err := s.bucket(tx, BucketRef{Account: account, Bucket: adminName}, lockShare)
		if missing(err) {
			bucket, err = insertBucket(tx, domain.Bucket{Account: account, Name: adminName}, now)
		}
		if err != nil {
			return err
		}
		admin, err := s.adminConsumer(tx, bucket, now)
		if err != nil {
			return err
		}
		if created, err = s.insertKeys(tx, bucket, admin.ID, []domain.APIKey{key}, now); err != nil {
			return err
		}
		resources := append([]domain.Resource{bucketResource(bucket), consumerResource(admin)}, keyResources(created)...)
		if caller, ok := callerOf(ctx); ok && caller.Account != account {
			// In the caller's own log stands whom it was done to, and nothing of what is there.
			if err := s.note(ctx, tx, ActionCreateAdminKey, "", domain.Resource{Type: ResourceAccount, Name: account}); err != nil {
				return err
			}
		}
		return s.note(ctx, tx, ActionCreateAdminKey, account, resources...)
	})
	if err != nil {
		return domain.APIKey{}, wrap("create admin key", err)
	}
	return created[0], nil
}

func missing(err error) bool {
	return errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, domain.ErrNotFound)
}

// adminConsumer returns a consumer of the bucket that has all rights, and makes it when there
// is none of the name.
func (s *Store) adminConsumer(tx *gorm.DB, b bucketRow, now time.Time) (domain.Consumer, error) {
	admin := domain.Consumer{Name: adminName, Scopes: []domain.Scope{domain.ScopeAdmin}}
	for n := 2; ; n++ {
		ref := ConsumerRef{Account: b.Account, Bucket: b.Name, Consumer: admin.Name}
		_, there, err := s.consumer(tx, ref, lockChange)
		switch {
		case missing(err):
			row, err := insertConsumer(tx, b, admin, now)
			if err != nil {
				return domain.Consumer{}, err
			}
			return row.domain(b)
		case err != nil:
			return domain.Consumer{}, err
		case slices.Contains(there.Scopes, domain.ScopeAdmin):
			return there, nil
		}
		admin.Name = adminName + "-" + strconv.Itoa(n)
	}
}

// ListAccounts returns accounts and how many there are.
func (s *Store) ListAccounts(ctx context.Context, page Page) ([]domain.Account, int, error) {
	var accounts []domain.Account
	var total int
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		rows, n, err := listPage[accountRow](tx.Model(&accountRow{}), page, weight{})
		for _, row := range rows {
			accounts = append(accounts, row.domain())
		}
		total = n
		return err
	})
	if err != nil {
		return nil, 0, wrap("list accounts", err)
	}
	return accounts, total, nil
}

// GetAccount returns the account of that name.
func (s *Store) GetAccount(ctx context.Context, name string) (domain.Account, error) {
	row, err := takeAccount(s.read.WithContext(ctx), name)
	if err != nil {
		return domain.Account{}, wrap("get account", err)
	}
	return row.domain(), nil
}

func takeAccount(tx *gorm.DB, name string) (accountRow, error) {
	var row accountRow
	if !storable(name) {
		return row, domain.ErrNotFound
	}
	return row, tx.Where("name = ?", name).Take(&row).Error
}

// defaultBuckets are the ends of the names of the buckets that a project begins with.
func defaultBuckets() []string { return []string{"-production", "-preview", "-working-copy"} }

// CreateProject makes a project with its three buckets, which are retrievable, or nothing.
// ErrConflict: the account has a project of that name, or one of the buckets.
func (s *Store) CreateProject(ctx context.Context, account, name string) (domain.Project, error) {
	var row projectRow
	err := s.tx(ctx, func(tx *gorm.DB) error {
		if _, err := takeAccount(tx, account); err != nil {
			return err
		}
		now := s.clock()
		row = projectRow{ID: newID(prefixProject, idLength), Account: account, Name: name, CreatedAt: instantOf(now)}
		if err := tx.Create(&row).Error; err != nil {
			return fmt.Errorf("insert project: %w", err)
		}
		resources := []domain.Resource{{Type: ResourceProject, ID: row.ID, Name: name}}
		for _, end := range defaultBuckets() {
			bucket, err := insertBucket(tx, domain.Bucket{Account: account, Name: name + end, Retrievable: true}, now)
			if err != nil {
				return err
			}
			resources = append(resources, bucketResource(bucket))
		}
		return s.note(ctx, tx, ActionCreateProject, account, resources...)
	})
	if err != nil {
		return domain.Project{}, wrap("create project", err)
	}
	return row.domain(), nil
}

// GetProject returns the account's project of that name.
func (s *Store) GetProject(ctx context.Context, account, name string) (domain.Project, error) {
	var row projectRow
	err := domain.ErrNotFound
	if storable(account, name) {
		err = s.read.WithContext(ctx).Where("account = ? AND name = ?", account, name).Take(&row).Error
	}
	if err != nil {
		return domain.Project{}, wrap("get project", err)
	}
	return row.domain(), nil
}

// ListProjects returns an account's projects and how many there are.
func (s *Store) ListProjects(ctx context.Context, account string, page Page) ([]domain.Project, int, error) {
	if !storable(account) {
		return nil, 0, nil
	}
	var projects []domain.Project
	var total int
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		rows, n, err := listPage[projectRow](tx.Model(&projectRow{}).Where("account = ?", account), page, weight{})
		for _, row := range rows {
			projects = append(projects, row.domain())
		}
		total = n
		return err
	})
	if err != nil {
		return nil, 0, wrap("list projects", err)
	}
	return projects, total, nil
}
