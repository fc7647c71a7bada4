package access

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/keyholders"
)

// The kinds of Session.
const (
	KindSession = "session" // a person or key is signed in
	KindLink    = "link"    // a code for one session
	KindChoice  = "choice"  // a person who has to choose a consumer
)

const prefixSession = "csess_"

// Session is a session of the console, a code for one, or a choice. Of the token in the browser it
// has only the SHA-256.
type Session struct {
	ID        string // public id
	Hash      []byte
	Kind      string
	Account   string
	KeyID     string // empty: the bootstrap key, or a manager
	ManagerID string
	// Proof is the part of the key that must not change: its suffix, or package auth's proof of the
	// bootstrap key.
	Proof     string
	Person    string // as the identity provider names a manager
	CreatedOn time.Time
	SeenOn    time.Time
	ExpiresOn time.Time
	Address   string
	UserAgent string
}

type sessionRow struct {
	ID        string `gorm:"primaryKey"`
	Hash      []byte
	Kind      string
	Account   string
	KeyID     string
	ManagerID string
	Proof     string
	Person    string
	CreatedAt store.Instant `gorm:"autoCreateTime:false"`
	SeenAt    store.Instant
	ExpiresAt store.Instant
	Address   string
	UserAgent string
}

func (sessionRow) TableName() string { return "console_sessions" }

func (r sessionRow) domain() Session {
	return Session{
		ID: r.ID, Hash: r.Hash, Kind: r.Kind, Account: r.Account, KeyID: r.KeyID, ManagerID: r.ManagerID, Proof: r.Proof, Person: r.Person,
		CreatedOn: r.CreatedAt.Time(), SeenOn: r.SeenAt.Time(), ExpiresOn: r.ExpiresAt.Time(), Address: r.Address, UserAgent: r.UserAgent,
	}
}

// purgeSessions is the maximum number of expired sessions that a new one deletes.
const purgeSessions = 100

// Replaced names what a new session replaces, by the SHA-256 of the tokens.
type Replaced struct {
	Code   []byte // the one-time code that is exchanged for the session; nil: none
	Former []byte // the browser's previous session, if it is still valid; nil: none
}

// OpenSession stores a session that lasts for so long and deletes some that have expired. A key or a
// manager has at most 100 sessions and 100 unused codes: another one ends the oldest. It also ends
// the sessions and codes in Replaced. ErrNotFound: the code has been used already, and nothing is
// changed.
func (a *Access) OpenSession(ctx context.Context, s Session, lasts time.Duration, replaced Replaced) (Session, error) {
	var opened Session
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		now := a.db.Now()
		if replaced.Code != nil {
			result := tx.Where("hash = ?", replaced.Code).Delete(&sessionRow{})
			if result.Error != nil {
				return fmt.Errorf("use code: %w", result.Error)
			}
			if result.RowsAffected == 0 {
				return domain.ErrNotFound
			}
		}
		if replaced.Former != nil {
			if err := tx.Where("hash = ?", replaced.Former).Delete(&sessionRow{}).Error; err != nil {
				return fmt.Errorf("end former session: %w", err)
			}
		}
		ended := tx.Model(&sessionRow{}).Select("id").Where("expires_at <= ?", store.InstantOf(now)).Order("expires_at").Limit(purgeSessions)
		if err := tx.Where("id IN (?)", ended).Delete(&sessionRow{}).Error; err != nil {
			return fmt.Errorf("purge sessions: %w", err)
		}
		if err := endOldest(tx, s); err != nil {
			return fmt.Errorf("end oldest sessions: %w", err)
		}
		row := sessionRow{
			ID: store.NewID(prefixSession, idLength), Hash: s.Hash, Kind: s.Kind, Account: s.Account, KeyID: s.KeyID, ManagerID: s.ManagerID,
			Proof: s.Proof, Person: s.Person, CreatedAt: store.InstantOf(now), SeenAt: store.InstantOf(now), ExpiresAt: store.InstantOf(now.Add(lasts)),
			Address: s.Address, UserAgent: s.UserAgent,
		}
		if err := tx.Create(&row).Error; err != nil {
			return fmt.Errorf("insert session: %w", err)
		}
		opened = row.domain()
		return nil
	})
	return opened, store.Wrap("open session", err)
}

// endOldest makes room for s among the sessions of its kind that its key or its manager has, so that
// no caller can fill the table. Choices are bounded by their ten minutes, and by the number of
// people that the provider signs in.
func endOldest(tx *gorm.DB, s Session) error {
	if s.Kind == KindChoice {
		return nil
	}
	oldest := tx.Model(&sessionRow{}).Select("id").
		Where("account = ? AND key_id = ? AND manager_id = ? AND kind = ?", s.Account, s.KeyID, s.ManagerID, s.Kind).
		Order("created_at DESC, id").Offset(maxSessions - 1).Limit(purgeSessions)
	return tx.Where("id IN (?)", oldest).Delete(&sessionRow{}).Error
}

// FindSession returns the session with the hash, which may have expired, and the present state of
// its key or its manager's consumer. The holder is zero for the bootstrap key and for a choice.
// ErrNotFound: there is no such session, or its key or manager was deleted.
func (a *Access) FindSession(ctx context.Context, hash []byte) (Session, domain.KeyHolder, error) {
	var row sessionRow
	var holder domain.KeyHolder
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if err := tx.Where("hash = ?", hash).Take(&row).Error; err != nil {
			return err
		}
		var consumer string
		switch {
		case row.KeyID != "":
			var k apiKeyRow
			if err := tx.Where("id = ?", row.KeyID).Take(&k).Error; err != nil {
				return err
			}
			if k.Suffix != row.Proof {
				return domain.ErrNotFound // the id is the same, but the key has changed
			}
			consumer, holder.KeyID, holder.ExpiresOn = k.ConsumerID, k.ID, k.ExpiresAt.Time()
		case row.ManagerID != "":
			var m managerRow
			if err := tx.Where("id = ? AND accepted_at IS NOT NULL", row.ManagerID).Take(&m).Error; err != nil {
				return err
			}
			consumer = m.ConsumerID
		default:
			return nil
		}
		return holderOf(tx, consumer, &holder)
	})
	if err != nil {
		return Session{}, domain.KeyHolder{}, store.Wrap("find session", err)
	}
	return row.domain(), holder, nil
}

// holderOf sets the holder of a consumer's keys.
func holderOf(tx *gorm.DB, consumer string, holder *domain.KeyHolder) error {
	c, b, err := consumerOf(tx, consumer)
	if err != nil {
		return err
	}
	holder.Account, holder.Bucket, holder.ConsumerID, holder.Consumer, holder.Scopes = b.Account, b.Name, c.ID, c.Name, keyholders.SplitScopes(c.Scopes)
	return nil
}

// consumerOf returns a consumer by its id, and its bucket.
func consumerOf(tx *gorm.DB, id string) (c consumerRow, b bucketRow, err error) {
	if err = tx.Where("id = ?", id).Take(&c).Error; err == nil {
		err = tx.Where("id = ?", c.BucketID).Take(&b).Error
	}
	return c, b, err
}

// SeeSession notes that a session was used.
func (a *Access) SeeSession(ctx context.Context, id string) error {
	err := a.db.Again(ctx, func() error {
		return a.db.Writing(ctx).Model(&sessionRow{ID: id}).Update("seen_at", store.InstantOf(a.db.Now())).Error
	})
	return store.Wrap("note use of session", err)
}

// EndSession ends the session with the hash, if there is one.
func (a *Access) EndSession(ctx context.Context, hash []byte) error {
	err := a.db.Again(ctx, func() error { return a.db.Writing(ctx).Where("hash = ?", hash).Delete(&sessionRow{}).Error })
	return store.Wrap("end session", err)
}

// EndOtherSessions ends all sessions of the key or the manager of s but s itself, and its
// unused codes.
func (a *Access) EndOtherSessions(ctx context.Context, s Session) error {
	err := a.db.Again(ctx, func() error {
		return a.db.Writing(ctx).Where("account = ? AND key_id = ? AND manager_id = ? AND id <> ?", s.Account, s.KeyID, s.ManagerID, s.ID).
			Delete(&sessionRow{}).Error
	})
	return store.Wrap("end other sessions", err)
}

// maxSessions bounds the sessions of a key or a manager, and its codes.
const maxSessions = 100

// ListSessions returns the sessions of the key or the manager of s that have not expired, the
// latest first, at most 100.
func (a *Access) ListSessions(ctx context.Context, s Session) ([]Session, error) {
	var rows []sessionRow
	err := a.db.Reading(ctx).Where("account = ? AND key_id = ? AND manager_id = ? AND kind = ? AND expires_at > ?",
		s.Account, s.KeyID, s.ManagerID, KindSession, store.InstantOf(a.db.Now())).Order("created_at DESC, id").Limit(maxSessions).Find(&rows).Error
	if err != nil {
		return nil, store.Wrap("list sessions", err)
	}
	return store.All(rows, sessionRow.domain), nil
}
