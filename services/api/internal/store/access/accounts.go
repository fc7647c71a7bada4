package access

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
)

// adminName is the name of the bucket and of the consumer that a new account begins with.
const adminName = "admin"

// CreateAccount makes an account with a bucket admin, which is not retrievable, a consumer admin in
// it with all rights, and the consumer's key. ErrConflict: the name is taken.
func (a *Access) CreateAccount(ctx context.Context, name string, key domain.APIKey) (domain.Account, domain.APIKey, error) {
	var account domain.Account
	var created []domain.APIKey
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		now := a.db.Now()
		var err error
		if account, err = accounts.Insert(tx, name, now); err != nil {
			return err
		}
		bucket, err := insertBucket(tx, domain.Bucket{Account: name, Name: adminName}, now)
		if err != nil {
			return err
		}
		consumer, err := insertConsumer(tx, bucket, domain.Consumer{Name: adminName, Scopes: []domain.Scope{domain.ScopeAdmin}}, now)
		if err != nil {
			return err
		}
		if created, err = a.insertKeys(tx, bucket, consumer.ID, []domain.APIKey{key}, now); err != nil {
			return err
		}
		if err := a.count(tx, name, change{buckets: 1, consumers: 1, keys: 1}); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionCreateAccount, "", domain.Resource{Type: auditlog.ResourceAccount, ID: account.ID, Name: name})
	})
	if err != nil {
		return domain.Account{}, domain.APIKey{}, store.Wrap("create account", err)
	}
	return account, created[0], nil
}

// CreateAdminKey stores another admin key of an account, for when the others are lost: in the
// bucket admin, for the consumer admin. If bucket or consumer is missing, it is made as in
// CreateAccount. A consumer admin without all rights does not get them back, because other people
// may have keys of it: then the key is for admin-2, and so on. The audit logs of both the account
// and the caller's account get an entry. ErrNotFound: there is no such account.
func (a *Access) CreateAdminKey(ctx context.Context, account string, key domain.APIKey) (domain.APIKey, error) {
	var created []domain.APIKey
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		// One at a time, so that missing parts are made only once.
		if _, err := accounts.Take(a.db.Lock(tx, store.LockChange), account); err != nil {
			return err
		}
		now, more := a.db.Now(), change{keys: 1}
		bucket, _, err := a.bucket(tx, BucketRef{Account: account, Bucket: adminName}, store.LockShare)
		if missing(err) {
			more.buckets = 1
			bucket, err = insertBucket(tx, domain.Bucket{Account: account, Name: adminName}, now)
		}
		if err != nil {
			return err
		}
		admin, made, err := a.adminConsumer(tx, bucket, now)
		if err != nil {
			return err
		}
		if created, err = a.insertKeys(tx, bucket, admin.ID, []domain.APIKey{key}, now); err != nil {
			return err
		}
		if made {
			more.consumers = 1
		}
		if err := a.count(tx, account, more); err != nil {
			return err
		}
		resources := append([]domain.Resource{bucketResource(bucket), consumerResource(admin)}, keyResources(created)...)
		if caller, ok := auditlog.CallerOf(ctx); ok && caller.Account != account {
			// The caller's own log names the account, but nothing inside it.
			if err := a.audit.Note(ctx, tx, auditlog.ActionCreateAdminKey, "", domain.Resource{Type: auditlog.ResourceAccount, Name: account}); err != nil {
				return err
			}
		}
		return a.audit.Note(ctx, tx, auditlog.ActionCreateAdminKey, account, resources...)
	})
	if err != nil {
		return domain.APIKey{}, store.Wrap("create admin key", err)
	}
	return created[0], nil
}

func missing(err error) bool {
	return errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, domain.ErrNotFound)
}

// adminConsumer returns a consumer of the bucket with all rights, and makes one if there is none
// with such a name.
func (a *Access) adminConsumer(tx *gorm.DB, b bucketRow, now time.Time) (admin domain.Consumer, made bool, err error) {
	admin = domain.Consumer{Name: adminName, Scopes: []domain.Scope{domain.ScopeAdmin}}
	for n := 2; ; n++ {
		ref := ConsumerRef{Account: b.Account, Bucket: b.Name, Consumer: admin.Name}
		_, there, err := a.consumer(tx, ref, store.LockChange)
		switch {
		case missing(err):
			row, err := insertConsumer(tx, b, admin, now)
			if err != nil {
				return domain.Consumer{}, false, err
			}
			admin, err = row.domain(b)
			return admin, true, err
		case err != nil:
			return domain.Consumer{}, false, err
		case slices.Contains(there.Scopes, domain.ScopeAdmin):
			return there, false, nil
		}
		admin.Name = adminName + "-" + strconv.Itoa(n)
	}
}
