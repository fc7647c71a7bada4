package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/signature"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// signingKeyRow is a signing key of an account. The private half is sealed and bound to id and account.
type signingKeyRow struct {
	ID         string `gorm:"primaryKey"`
	Account    string
	PublicKey  []byte
	PrivateKey []byte
	CreatedAt  store.Instant `gorm:"autoCreateTime:false"`
	ExpiresAt  store.Instant
}

func (signingKeyRow) TableName() string { return "signing_keys" }

func signingKeySealData(id, account string) []byte {
	return []byte("signing_keys|private_key|" + id + "|" + account)
}

func (r signingKeyRow) public() domain.SigningKey {
	return domain.SigningKey{ID: r.ID, Account: r.Account, Public: r.PublicKey, CreatedAt: r.CreatedAt.Time(), ExpiresAt: r.ExpiresAt.Time()}
}

// SigningKeys returns the public halves of an account's keys that sign now, the newest first. An
// account without keys, and an account that does not exist, have none.
func (p *Pipeline) SigningKeys(ctx context.Context, account string) ([]domain.SigningKey, error) {
	if !store.Storable(account) {
		return nil, nil
	}
	rows, err := p.liveSigningKeys(p.db.Reading(ctx), account)
	if err != nil {
		return nil, store.Wrap("read signing keys", err)
	}
	keys := make([]domain.SigningKey, len(rows))
	for i, row := range rows {
		keys[i] = row.public()
	}
	return keys, nil
}

// EnsureSigningKey makes an account's first key, unless it has one.
func (p *Pipeline) EnsureSigningKey(ctx context.Context, account string) error {
	return store.Wrap("make signing key", p.db.Tx(ctx, func(tx *gorm.DB) error { return p.ensureSigningKey(tx, account) }))
}

// ensureSigningKey makes the first key of an account in a transaction. If several transactions do
// so at the same time, one makes the key, and the others wait for it.
func (p *Pipeline) ensureSigningKey(tx *gorm.DB, account string) error {
	var present int64
	if err := tx.Model(&signingKeyRow{}).Where("account = ? AND expires_at IS NULL", account).Count(&present).Error; err != nil || present > 0 {
		return err
	}
	row, err := p.newSigningKey(account)
	if err != nil {
		return err
	}
	return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error
}

func (p *Pipeline) newSigningKey(account string) (signingKeyRow, error) {
	id, err := store.NewUUID()
	if err != nil {
		return signingKeyRow{}, err
	}
	key := signature.NewPrivateKey()
	row := signingKeyRow{ID: id, Account: account, PublicKey: key.Public(), CreatedAt: store.InstantOf(p.db.Now())}
	err = p.sealSigningKey(&row, key.Reveal())
	return row, err
}

func (p *Pipeline) sealSigningKey(row *signingKeyRow, private string) (err error) {
	if row.PrivateKey, err = p.db.Seal([]byte(private), signingKeySealData(row.ID, row.Account)); err != nil {
		return fmt.Errorf("seal signing key: %w", err)
	}
	return nil
}

// liveSigningKeys returns the rows of the accounts' keys that sign now, the newest first.
func (p *Pipeline) liveSigningKeys(tx *gorm.DB, accounts ...string) ([]signingKeyRow, error) {
	var rows []signingKeyRow
	err := tx.Where("account IN ? AND (expires_at IS NULL OR expires_at > ?)", accounts, store.InstantOf(p.db.Now())).
		Order("account, CASE WHEN expires_at IS NULL THEN 0 ELSE 1 END, id DESC").Find(&rows).Error
	return rows, err
}

// openSigningKey opens a key. If its private half can't be read, the key has a Fault.
func (p *Pipeline) openSigningKey(row signingKeyRow) domain.SigningKey {
	key := row.public()
	plain, err := p.db.Unseal(row.PrivateKey, signingKeySealData(row.ID, row.Account))
	switch {
	case errors.Is(err, seal.ErrUnknownKey):
		key.Fault = "its account's signing key can't be decrypted: it was encrypted with a key that is not in WAYBILL_ENCRYPTION_KEY"
		return key
	case err != nil:
		key.Fault = "its account's signing key can't be decrypted: the stored bytes were changed, cut or moved"
		return key
	}
	private, err := signature.ParsePrivateKey(string(plain))
	if err != nil || !bytes.Equal(private.Public(), row.PublicKey) {
		key.Fault = "its account's signing key is not one that can sign"
		return key
	}
	key.Private = domain.Secret(plain)
	return key
}

// maxAccountsAsked bounds the arguments of a statement.
const maxAccountsAsked = 500

// giveKeys sets the keys of the webhooks that are signed by v1a. Webhooks of one account share
// them. If there is no such webhook, nothing is read.
func (p *Pipeline) giveKeys(tx *gorm.DB, webhooks []domain.Webhook) error {
	var accounts []string
	for i := range webhooks {
		if w := &webhooks[i]; w.Signing.Asymmetric() && !w.Deleted {
			accounts = append(accounts, w.Account)
		}
	}
	if len(accounts) == 0 {
		return nil
	}
	slices.Sort(accounts)
	keys := map[string][]domain.SigningKey{}
	for some := range slices.Chunk(slices.Compact(accounts), maxAccountsAsked) {
		rows, err := p.liveSigningKeys(tx, some...)
		if err != nil {
			return fmt.Errorf("read signing keys: %w", err)
		}
		for _, row := range rows {
			keys[row.Account] = append(keys[row.Account], p.openSigningKey(row))
		}
	}
	for i := range webhooks {
		if w := &webhooks[i]; w.Signing.Asymmetric() && !w.Deleted {
			takeKeys(w, keys[w.Account])
		}
	}
	return nil
}

// takeKeys gives a webhook its account's keys. The webhook has a Fault if one of them can't be
// read, because receivers may know only that one.
func takeKeys(w *domain.Webhook, keys []domain.SigningKey) {
	w.SigningKeys = keys
	if w.Fault != "" {
		return
	}
	if len(keys) == 0 || !keys[0].ExpiresAt.IsZero() {
		w.Fault = "its account's signing key is missing"
		return
	}
	for i := range keys {
		if keys[i].Fault != "" {
			w.Fault = keys[i].Fault
			return
		}
	}
}

// RotateSigningKey makes a new key for an account and returns the public halves of all keys that
// sign from now on, the newest first. The other keys sign until overlap is over, or until their own
// end if that is sooner. With an overlap of 0, and beyond MaxSigningKeys, they end at once. The
// webhooks that are signed with the keys get a new version, too.
func (p *Pipeline) RotateSigningKey(ctx context.Context, account string, overlap time.Duration) (keys []domain.SigningKey, version int64, err error) {
	err = p.db.Tx(ctx, func(tx *gorm.DB) error {
		// bumpVersion locks the version, so that each of several rotations sees the keys of the one before.
		if version, err = bumpVersion(tx); err != nil {
			return err
		}
		rows, err := p.liveSigningKeys(tx, account)
		if err != nil {
			return err
		}
		made, err := p.newSigningKey(account)
		if err != nil {
			return err
		}
		keys = []domain.SigningKey{made.public()}
		kept, err := p.endSigningKeys(tx, account, rows, overlap)
		if err != nil {
			return err
		}
		if err := tx.Create(&made).Error; err != nil {
			return err
		}
		keys = append(keys, kept...)
		err = tx.Model(&webhookRow{}).Where("account = ? AND signing <> ? AND NOT deleted", account, string(domain.SigningV1)).
			UpdateColumn("version", version).Error
		if err != nil {
			return err
		}
		return p.audit.Note(ctx, tx, auditlog.ActionRotateSigningKeys, account, domain.Resource{Type: auditlog.ResourceSigningKey, ID: made.ID})
	})
	return keys, version, store.Wrap("rotate signing key", err)
}

// endSigningKeys sets the end of an account's keys and returns those that sign until then. It seals
// them again. A key that can't be opened can't sign, so it is removed.
func (p *Pipeline) endSigningKeys(tx *gorm.DB, account string, rows []signingKeyRow, overlap time.Duration) ([]domain.SigningKey, error) {
	ends := store.InstantOf(p.db.Now().Add(overlap))
	var kept []domain.SigningKey
	ids := []string{""}
	for _, row := range rows {
		key := p.openSigningKey(row)
		if overlap <= 0 || key.Fault != "" || len(kept) == domain.MaxSigningKeys-1 {
			continue
		}
		if row.ExpiresAt == 0 || row.ExpiresAt > ends {
			row.ExpiresAt = ends
		}
		if err := p.sealSigningKey(&row, key.Private.Reveal()); err != nil {
			return nil, err
		}
		if err := tx.Save(&row).Error; err != nil {
			return nil, err
		}
		kept, ids = append(kept, row.public()), append(ids, row.ID)
	}
	return kept, tx.Where("account = ? AND id NOT IN ?", account, ids).Delete(&signingKeyRow{}).Error
}
