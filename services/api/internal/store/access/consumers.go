package access

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/keyholders"
)

// ConsumerRef names a consumer of an account.
type ConsumerRef struct {
	Account, Bucket, Consumer string
	// Tags are pairs that the consumer must have; otherwise it is not found.
	Tags map[string]string
	// Guard, if not nil, is called for the consumer inside the transaction; its error ends the
	// operation. It may be called again and must not use the store.
	Guard func(domain.Consumer) error
}

// ConsumerFilter selects consumers of a bucket.
type ConsumerFilter struct {
	Tags         map[string]string // the consumer must have all of them
	ManagerEmail string            // email of one of its managers; empty: any
	Search       string            // text in its name or its description, in any case; empty: any
	store.Page
}

// Parts say what is read with a consumer. Secrets: the keys themselves, if the bucket is
// retrievable.
type Parts struct{ Keys, Secrets, Managers bool }

// partsStep is how many consumers are weighed at a time with their parts: with 1000 keys each they
// are already several pages.
const partsStep = 50

// weight returns the weight of a consumer with its parts.
func (p Parts) weight() store.Weight {
	const part = " + (SELECT coalesce(sum(part.bytes), 0) FROM (SELECT "
	w := store.Weight{SQL: "octet_length(tags) + octet_length(metadata) + octet_length(description) + 512"}
	for _, kind := range []struct {
		wanted       bool
		bytes, table string
	}{
		{p.Keys, "octet_length(p.description) + 256", "api_keys"},
		{p.Managers, "octet_length(p.email) + octet_length(p.sub) + 128", "key_managers"},
	} {
		if kind.wanted {
			w.Step = partsStep
			w.SQL += part + kind.bytes + " AS bytes FROM " + kind.table +
				" p WHERE p.consumer_id = key_consumers.id ORDER BY p.created_at, p.seq LIMIT " + strconv.Itoa(maxParts) + ") AS part)"
		}
	}
	return w
}

// ConsumerView is a consumer with the parts that were asked for, oldest first and not more
// than the first 1000 of each kind.
type ConsumerView struct {
	domain.Consumer

	Keys     []domain.APIKey
	Managers []domain.Manager
}

// CreateConsumer stores c in its bucket with managers and keys; ids and times are the
// store's. The keys are returned in full. ErrConflict: the bucket has a consumer of that
// name, or a key is known; ErrLimit: see CreateManager; ErrNotFound: there is no such bucket.
func (a *Access) CreateConsumer(ctx context.Context, c domain.Consumer, managers []domain.Manager, keys []domain.APIKey) (ConsumerView, error) {
	var view ConsumerView
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		bucket, _, err := a.bucket(tx, BucketRef{Account: c.Account, Bucket: c.Bucket}, store.LockShare)
		if err != nil {
			return err
		}
		now := a.db.Now()
		row, err := insertConsumer(tx, bucket, c, now)
		if err != nil {
			return err
		}
		view = ConsumerView{}
		if view.Consumer, err = row.domain(bucket); err != nil {
			return err
		}
		if view.Keys, err = a.insertKeys(tx, bucket, row.ID, keys, now); err != nil {
			return err
		}
		if view.Managers, err = insertManagers(ctx, tx, bucket.Account, row.ID, managers, now); err != nil {
			return err
		}
		resources := []domain.Resource{bucketResource(bucket), consumerResource(view.Consumer)}
		resources = append(resources, keyResources(view.Keys)...)
		if err := a.count(tx, bucket.Account, change{consumers: 1, keys: len(keys), managers: len(managers)}); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionCreateConsumer, bucket.Account, resources...)
	})
	return view, store.Wrap("create consumer", err)
}

func insertConsumer(tx *gorm.DB, b bucketRow, c domain.Consumer, now time.Time) (consumerRow, error) {
	c.ID, c.CreatedOn, c.UpdatedOn = store.NewID(prefixConsumer, idLength), now, now
	row, err := consumerToRow(c, b.ID)
	if err != nil {
		return row, err
	}
	if err := tx.Create(&row).Error; err != nil {
		return row, fmt.Errorf("insert consumer: %w", err)
	}
	return row, nil
}

// ListConsumers returns a page of the bucket's consumers that the filter selects, and their total
// number. There are fewer than the page's limit when they are large, see MaxPageBytes. ErrNotFound:
// there is no such bucket.
func (a *Access) ListConsumers(ctx context.Context, account, bucket string, f ConsumerFilter, with Parts) ([]ConsumerView, int, error) {
	var views []ConsumerView
	var total int
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		b, _, err := a.bucket(tx, BucketRef{Account: account, Bucket: bucket}, store.LockNone)
		if err != nil || !store.Storable(f.ManagerEmail, f.Search) {
			return err
		}
		query := tx.Model(&consumerRow{})
		if f.ManagerEmail == "" {
			query = query.Where("bucket_id = ?", b.ID)
		} else { // IS TRUE: a person manages some consumers, and a bucket may have many
			query = query.Where("(bucket_id = ?) IS TRUE", b.ID).Where("id IN (SELECT m.consumer_id FROM key_managers m WHERE lower(m.email) = ? AND m.email = ?)", domain.FoldEmail(f.ManagerEmail), f.ManagerEmail)
		}
		if f.Search != "" {
			query = store.Contains(query, f.Search, "name", "description")
		}
		if query, err = a.withTags(query, f.Tags); err != nil {
			return err
		}
		rows, n, err := store.ListPage[consumerRow](query, f.Page, with.weight())
		if err != nil {
			return err
		}
		total = n
		views = make([]ConsumerView, len(rows))
		for i, row := range rows {
			if views[i].Consumer, err = row.domain(b); err != nil {
				return err
			}
		}
		return a.readParts(tx, b, views, with)
	})
	return views, total, store.Wrap("list consumers", err)
}

// GetConsumer returns one consumer.
func (a *Access) GetConsumer(ctx context.Context, ref ConsumerRef, with Parts) (ConsumerView, error) {
	views := make([]ConsumerView, 1)
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockNone)
		if err != nil {
			return err
		}
		views[0].Consumer = c
		return a.readParts(tx, b, views, with)
	})
	if err != nil {
		return ConsumerView{}, store.Wrap("get consumer", err)
	}
	return views[0], nil
}

// consumer returns a consumer and the row of its bucket. With a lock the bucket is held as
// well, and the guard has agreed.
func (a *Access) consumer(tx *gorm.DB, ref ConsumerRef, lock string) (bucketRow, domain.Consumer, error) {
	outer := store.LockNone
	if lock != store.LockNone {
		outer = store.LockShare
	}
	b, _, err := a.bucket(tx, BucketRef{Account: ref.Account, Bucket: ref.Bucket}, outer)
	if err != nil {
		return b, domain.Consumer{}, err
	}
	if !store.Storable(ref.Consumer) {
		return b, domain.Consumer{}, domain.ErrNotFound
	}
	var row consumerRow
	if err := store.Unique(a.db.Lock(tx.Where("bucket_id = ? AND name = ?", b.ID, ref.Consumer), lock), &row); err != nil {
		return b, domain.Consumer{}, err
	}
	c, err := row.domain(b)
	switch {
	case err != nil:
	case !hasTags(c.Tags, ref.Tags):
		err = domain.ErrNotFound
	case ref.Guard != nil:
		err = ref.Guard(c)
	}
	return b, c, err
}

// readParts reads the requested parts of the consumers of a bucket.
func (a *Access) readParts(tx *gorm.DB, b bucketRow, views []ConsumerView, with Parts) error {
	ids, at := make([]string, len(views)), make(map[string]*ConsumerView, len(views))
	for i := range views {
		ids[i] = views[i].ID
		at[ids[i]] = &views[i]
	}
	if with.Keys {
		rows, err := firstParts[apiKeyRow](tx, ids)
		if err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		for _, row := range rows {
			k, err := a.keyFromRow(row, b, with.Secrets)
			if err != nil {
				return err
			}
			at[row.ConsumerID].Keys = append(at[row.ConsumerID].Keys, k)
		}
	}
	if with.Managers {
		rows, err := firstParts[managerRow](tx, ids)
		if err != nil {
			return fmt.Errorf("read managers: %w", err)
		}
		for _, row := range rows {
			at[row.ConsumerID].Managers = append(at[row.ConsumerID].Managers, row.domain())
		}
	}
	return nil
}

// FirstConsumers returns the id, name, description and scopes of the first most consumers of each of the buckets, by the bucket's
// name. Buckets after MaxPageBytes of descriptions get none.
func (a *Access) FirstConsumers(ctx context.Context, buckets []domain.Bucket, most int) (map[string][]domain.Consumer, error) {
	of := make(map[string][]domain.Consumer, len(buckets))
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		weight := 0
		for _, b := range buckets {
			var rows []consumerRow
			err := tx.Select("id", "name", "description", "scopes").Where("bucket_id = ?", b.ID).Order(store.OldestFirst).Limit(most).Find(&rows).Error
			if err != nil || weight > store.MaxPageBytes {
				return err
			}
			for _, row := range rows {
				weight += len(row.Description)
				of[b.Name] = append(of[b.Name], domain.Consumer{ID: row.ID, Name: row.Name, Description: row.Description, Scopes: keyholders.SplitScopes(row.Scopes)})
			}
		}
		return nil
	})
	return of, store.Wrap("list the first consumers", err)
}

// firstParts reads the first rows of each of the consumers. Further rows of a consumer are not
// read.
func firstParts[R any](tx *gorm.DB, consumers []string) ([]R, error) {
	var all []R
	for some := range slices.Chunk(consumers, partsStep) {
		var row R
		parts, args := make([]string, len(some)), make([]any, len(some))
		for i, id := range some {
			parts[i] = "SELECT * FROM (?) AS part" //nolint:unqueryvet // the part names its columns
			args[i] = tx.Model(&row).Where("consumer_id = ?", id).Order(store.OldestFirst).Limit(maxParts)
		}
		var rows []R
		if err := tx.Raw(strings.Join(parts, " UNION ALL ")+" ORDER BY "+store.OldestFirst, args...).Scan(&rows).Error; err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// UpdateConsumer applies change to the description, tags, metadata and scopes of a consumer. If
// change returns an error, that is returned and nothing is stored; change may be called again and
// must not use the store.
func (a *Access) UpdateConsumer(ctx context.Context, ref ConsumerRef, change func(*domain.Consumer) error) (domain.Consumer, error) {
	var updated domain.Consumer
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		b, before, err := a.consumer(tx, ref, store.LockChange)
		if err != nil {
			return err
		}
		after := before
		if err := change(&after); err != nil {
			return err
		}
		after.ID, after.Name, after.CreatedOn, after.UpdatedOn = before.ID, before.Name, before.CreatedOn, a.db.Now()
		row, err := consumerToRow(after, b.ID)
		if err != nil {
			return err
		}
		err = tx.Select("description", "tags", "metadata", "scopes", "updated_at").Updates(&row).Error
		if err != nil {
			return fmt.Errorf("update consumer row: %w", err)
		}
		if updated, err = row.domain(b); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionUpdateConsumer, b.Account, bucketResource(b), consumerResource(updated))
	})
	return updated, store.Wrap("update consumer", err)
}

// DeleteConsumer deletes a consumer with its keys and managers.
func (a *Access) DeleteConsumer(ctx context.Context, ref ConsumerRef) error {
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockDelete)
		if err != nil {
			return err
		}
		gone, err := within(tx, "c.id = ?", c.ID)
		if err != nil {
			return err
		}
		if err := tx.Delete(&consumerRow{ID: c.ID}).Error; err != nil {
			return fmt.Errorf("delete consumer row: %w", err)
		}
		if err := a.count(tx, b.Account, gone); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionDeleteConsumer, b.Account, bucketResource(b), consumerResource(c))
	})
	return store.Wrap("delete consumer", err)
}

func consumerResource(c domain.Consumer) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceConsumer, ID: c.ID, Name: c.Name}
}
