package access

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// CreateManager adds a manager to a consumer, which invites the person, and sets its id and time.
// ErrConflict: the consumer has the manager already. ErrLimit: the account names the person in
// domain.MaxManaged places.
func (a *Access) CreateManager(ctx context.Context, ref ConsumerRef, m domain.Manager) (domain.Manager, error) {
	var created []domain.Manager
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockChange)
		if err != nil {
			return err
		}
		// The consumer is locked, so no other manager is added in the meantime.
		var same int64
		query := tx.Model(&managerRow{}).Where("consumer_id = ? AND email = ? AND sub = ?", c.ID, m.Email, m.Sub)
		if err := query.Count(&same).Error; err != nil {
			return fmt.Errorf("count managers: %w", err)
		}
		if same > 0 {
			return domain.ErrConflict
		}
		if created, err = insertManagers(ctx, tx, b.Account, c.ID, []domain.Manager{m}, a.db.Now()); err != nil {
			return err
		}
		if err := a.count(tx, b.Account, change{managers: 1}); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionCreateManager, b.Account, bucketResource(b), consumerResource(c), managerResource(created[0].ID))
	})
	if err != nil {
		return domain.Manager{}, store.Wrap("create manager", err)
	}
	return created[0], nil
}

func insertManagers(ctx context.Context, tx *gorm.DB, account, consumer string, managers []domain.Manager, now time.Time) ([]domain.Manager, error) {
	if len(managers) == 0 {
		return nil, nil
	}
	caller, _ := auditlog.CallerOf(ctx)
	rows, created := make([]managerRow, len(managers)), make([]domain.Manager, len(managers))
	for i, m := range managers {
		if err := checkManaged(tx, account, m); err != nil {
			return nil, err
		}
		rows[i] = managerRow{ID: store.NewID(prefixManager, idLength), ConsumerID: consumer, Email: m.Email, Sub: m.Sub, CreatedAt: store.InstantOf(now), InvitedBy: caller.Sub}
		created[i] = rows[i].domain()
	}
	if err := tx.CreateInBatches(rows, keyBatch).Error; err != nil {
		return nil, fmt.Errorf("insert managers: %w", err)
	}
	return created, nil
}

// checkManaged returns ErrLimit when an account names a person as often as it may. Managers that are added
// at the same time, for example with one consumer, may all pass.
func checkManaged(tx *gorm.DB, account string, m domain.Manager) error {
	var named int64
	who := Person{Sub: m.Sub, Email: m.Email}
	err := tx.Table("key_managers AS m").Joins("JOIN key_consumers c ON c.id = m.consumer_id").Joins("JOIN key_buckets b ON b.id = c.bucket_id").
		Where("b.account = ? AND "+ofPerson, append([]any{account}, who.values()...)...).Count(&named).Error
	switch {
	case err != nil:
		return fmt.Errorf("count consumers of a manager: %w", err)
	case named >= domain.MaxManaged:
		return fmt.Errorf("the account names the person %d times: %w", named, domain.ErrLimit)
	}
	return nil
}

// ListManagers returns a page of a consumer's managers, and their total number.
func (a *Access) ListManagers(ctx context.Context, ref ConsumerRef, page store.Page) ([]domain.Manager, int, error) {
	var managers []domain.Manager
	var total int
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		_, c, err := a.consumer(tx, ref, store.LockNone)
		if err != nil {
			return err
		}
		rows, n, err := store.ListPage[managerRow](tx.Model(&managerRow{}).Where("consumer_id = ?", c.ID), page, store.Weight{})
		for _, row := range rows {
			managers = append(managers, row.domain())
		}
		total = n
		return err
	})
	return managers, total, store.Wrap("list managers", err)
}

// GetManager returns one manager of a consumer.
func (a *Access) GetManager(ctx context.Context, ref ConsumerRef, id string) (domain.Manager, error) {
	var row managerRow
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		_, c, err := a.consumer(tx, ref, store.LockNone)
		if err != nil {
			return err
		}
		if !store.Storable(id) {
			return domain.ErrNotFound
		}
		return tx.Where("id = ? AND consumer_id = ?", id, c.ID).Take(&row).Error
	})
	return row.domain(), store.Wrap("get manager", err)
}

// DeleteManager removes a manager from a consumer.
func (a *Access) DeleteManager(ctx context.Context, ref ConsumerRef, id string) error {
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockChange)
		if err != nil {
			return err
		}
		if !store.Storable(id) {
			return domain.ErrNotFound
		}
		result := tx.Where("id = ? AND consumer_id = ?", id, c.ID).Delete(&managerRow{})
		if result.Error != nil {
			return fmt.Errorf("delete manager row: %w", result.Error)
		}
		if result.RowsAffected == 0 {
			return domain.ErrNotFound
		}
		if err := a.count(tx, b.Account, change{managers: -1}); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionDeleteManager, b.Account, bucketResource(b), consumerResource(c), managerResource(id))
	})
	return store.Wrap("delete manager", err)
}

func managerResource(id string) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceManager, ID: id}
}
