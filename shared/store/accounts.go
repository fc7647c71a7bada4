package store

import (
	"context"
	"fmt"

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
