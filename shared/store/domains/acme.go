package domains

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// LockTime is how long a lock holds without being renewed.
const LockTime = 30 * time.Second

// LockRenewal is the time after which the holder of a lock renews it.
const LockRenewal = LockTime / 3

// PutACME stores a value under a key, sealed.
func (s *Domains) PutACME(ctx context.Context, key string, value []byte) error {
	sealed, err := s.db.Seal(value, acmeSealData(key))
	if err != nil {
		return store.Wrap("seal for storage of certificates", err)
	}
	row := acmeRow{Key: key, Value: sealed, ModifiedAt: store.InstantOf(s.db.Now())}
	err = s.db.Again(ctx, func() error {
		return s.db.Writing(ctx).Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "key"}}, UpdateAll: true}).Create(&row).Error
	})
	return store.Wrap("write storage of certificates", err)
}

// ACME returns the value of a key, and when it was stored; domain.ErrNotFound: there is no such key.
func (s *Domains) ACME(ctx context.Context, key string) ([]byte, time.Time, error) {
	var row acmeRow
	if err := s.db.Reading(ctx).Where("key = ?", key).Take(&row).Error; err != nil {
		return nil, time.Time{}, store.Wrap("read storage of certificates", err)
	}
	value, err := s.db.Unseal(row.Value, acmeSealData(key))
	if err != nil {
		return nil, time.Time{}, store.Wrap("open storage of certificates", errors.Join(domain.ErrUnreadable, err))
	}
	return value, row.ModifiedAt.Time(), nil
}

// ACMEKeys returns the key itself, if it exists, and the keys below it. All keys are below the empty one.
func (s *Domains) ACMEKeys(ctx context.Context, key string) ([]string, error) {
	var keys []string
	err := keyAndBelow(s.db.Reading(ctx).Model(&acmeRow{}), key).Order("key").Pluck("key", &keys).Error
	return keys, store.Wrap("list storage of certificates", err)
}

// DeleteACME removes the key and those below it.
func (s *Domains) DeleteACME(ctx context.Context, key string) error {
	err := s.db.Again(ctx, func() error { return keyAndBelow(s.db.Writing(ctx), key).Delete(&acmeRow{}).Error })
	return store.Wrap("delete from storage of certificates", err)
}

// keyAndBelow narrows a query to a key and the keys below it. '0' is the character after '/'.
func keyAndBelow(query *gorm.DB, key string) *gorm.DB {
	if key == "" {
		return query.Where("key > ''")
	}
	return query.Where("key = ? OR key >= ? AND key < ?", key, key+"/", key+"0")
}

func acmeSealData(key string) []byte { return []byte("gateway_acme|value|" + key) }

// LockACME takes the lock with a name if no other owner has it, or renews it.
func (s *Domains) LockACME(ctx context.Context, name, owner string) (bool, error) {
	now := s.db.Now()
	row := lockRow{Name: name, Owner: owner, ExpiresAt: store.InstantOf(now.Add(LockTime))}
	var taken bool
	err := s.db.Again(ctx, func() error {
		result := s.db.Writing(ctx).Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "name"}},
			DoUpdates: clause.AssignmentColumns([]string{"owner", "expires_at"}),
			Where: clause.Where{Exprs: []clause.Expression{
				gorm.Expr("gateway_acme_locks.owner = ? OR gateway_acme_locks.expires_at <= ?", owner, store.InstantOf(now)),
			}},
		}).Create(&row)
		taken = result.RowsAffected > 0
		return result.Error
	})
	return taken, store.Wrap("lock certificate", err)
}

// UnlockACME gives a lock back.
func (s *Domains) UnlockACME(ctx context.Context, name, owner string) error {
	err := s.db.Again(ctx, func() error {
		return s.db.Writing(ctx).Where("name = ? AND owner = ?", name, owner).Delete(&lockRow{}).Error
	})
	return store.Wrap("unlock certificate", err)
}

// CertificateState is the state of the certificate that an authority gives for a hostname.
type CertificateState struct {
	ValidTo  time.Time // zero: there is no certificate
	Error    string    // why the last order failed; empty: it did not fail
	Failures int       // in a row
	RetryOn  time.Time // there is no new order before that time; zero: at once
}

// NoteCertificate writes the state of the certificate of a hostname. If
// ValidTo is zero, the stored one stays.
func (s *Domains) NoteCertificate(ctx context.Context, hostname string, state CertificateState) error {
	row := stateRow{
		Hostname: hostname, NotAfter: store.InstantOf(state.ValidTo), Error: oneLine(state.Error), Failures: int64(state.Failures),
		RetryAt: store.InstantOf(state.RetryOn), UpdatedAt: store.InstantOf(s.db.Now()),
	}
	columns := []string{"error", "failures", "retry_at", "updated_at"}
	if row.NotAfter != 0 {
		columns = append(columns, "not_after")
	}
	err := s.db.Again(ctx, func() error {
		return s.db.Writing(ctx).Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "hostname"}}, DoUpdates: clause.AssignmentColumns(columns),
		}).Create(&row).Error
	})
	return store.Wrap("note certificate", err)
}

// CertificateState returns the state of the certificate of a hostname.
func (s *Domains) CertificateState(ctx context.Context, hostname string) (CertificateState, error) {
	var row stateRow
	result := s.db.Reading(ctx).Where("hostname = ?", hostname).Limit(1).Find(&row)
	if result.Error != nil {
		return CertificateState{}, store.Wrap("read state of certificate", result.Error)
	}
	return CertificateState{row.NotAfter.Time(), row.Error, int(row.Failures), row.RetryAt.Time()}, nil
}

const maxError = 500

// oneLine returns an error's text as it is stored: in one line, and not too long.
func oneLine(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(strings.ReplaceAll(text, "\x00", "")), " "), "")
	if len(text) <= maxError {
		return text
	}
	return fmt.Sprintf("%s…", strings.ToValidUTF8(text[:maxError], ""))
}
