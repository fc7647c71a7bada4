// Package tunnels has the tables of tunnels: HMACs of their tokens, their services configurations,
// the connections of agents, and operations. The api writes what users want. Gateways write which
// agents are connected, and the results of operations.
package tunnels

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
)

const (
	idLength         = 22
	prefixTunnel     = "tun_"
	prefixTeardown   = "tst_"
	prefixProvision  = "pst_"
	prefixConnection = "tcn_"
)

// Tunnels reads and writes the tables.
type Tunnels struct {
	db    *store.Store
	audit *auditlog.Log
}

// New returns the tables of an open database.
func New(db *store.Store) *Tunnels { return &Tunnels{db: db, audit: auditlog.New(db)} }

// CreateTunnel stores a tunnel with a name and its token. ErrConflict: the account has a tunnel
// with that name. ErrLimit: the account has MaxTunnels. ErrNotFound: there is no such account.
func (t *Tunnels) CreateTunnel(ctx context.Context, account, name string, token domain.TunnelToken) (domain.Tunnel, error) {
	if !store.Storable(account) {
		return domain.Tunnel{}, domain.ErrNotFound
	}
	now := store.InstantOf(t.db.Now())
	row := tunnelRow{
		ID: store.NewID(prefixTunnel, idLength), Account: account, Name: name, TokenSuffix: token.Suffix, CreatedAt: now, UpdatedAt: now,
	}
	err := t.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := accounts.Take(t.db.Lock(tx, store.LockChange), account); err != nil {
			return err
		}
		var count int64
		if err := tx.Model(&tunnelRow{}).Where("account = ? AND removed_at IS NULL", account).Count(&count).Error; err != nil {
			return fmt.Errorf("count tunnels: %w", err)
		}
		if count >= domain.MaxTunnels {
			return fmt.Errorf("account has %d tunnels: %w", count, domain.ErrLimit)
		}
		if err := tx.Create(&row).Error; err != nil {
			return fmt.Errorf("insert tunnel: %w", err)
		}
		if err := tx.Create(&tokenRow{Hash: token.Hash, TunnelID: row.ID, CreatedAt: now}).Error; err != nil {
			return fmt.Errorf("insert token of tunnel: %w", err)
		}
		if err := t.auditChange(ctx, tx, auditlog.ActionCreateTunnel, &row); err != nil {
			return err
		}
		return t.saveRow(ctx, tx, &row)
	})
	return row.domain(nil), store.Wrap("create tunnel", err)
}

// ListTunnels returns a page of an account's tunnels, without their
// connections, and how many the account has.
func (t *Tunnels) ListTunnels(ctx context.Context, account string, page store.Page) ([]domain.Tunnel, int, error) {
	if !store.Storable(account) {
		return nil, 0, domain.ErrNotFound
	}
	var list []domain.Tunnel
	var total int
	err := t.db.Snapshot(ctx, func(tx *gorm.DB) error {
		rows, n, err := store.ListPage[tunnelRow](tx.Model(&tunnelRow{}).Where("account = ? AND removed_at IS NULL", account), page, store.Weight{})
		if err != nil {
			return err
		}
		total = n
		ids := store.All(rows, func(row tunnelRow) string { return row.ID })
		live, err := t.liveConnections(tx, ids...)
		if err != nil {
			return err
		}
		byTunnel := make(map[string][]connectionRow)
		for _, c := range live {
			byTunnel[c.TunnelID] = append(byTunnel[c.TunnelID], c)
		}
		list = make([]domain.Tunnel, len(rows))
		for i := range rows {
			list[i] = rows[i].domain(byTunnel[rows[i].ID])
		}
		return nil
	})
	return list, total, store.Wrap("list tunnels", err)
}

// GetTunnel returns a tunnel of the account.
func (t *Tunnels) GetTunnel(ctx context.Context, account, id string) (domain.Tunnel, error) {
	var tunnel domain.Tunnel
	err := t.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := t.getRow(tx, account, id, store.LockNone)
		if err != nil {
			return err
		}
		live, err := t.liveConnections(tx, id)
		tunnel = row.domain(live)
		return err
	})
	return tunnel, store.Wrap("get tunnel", err)
}

// RotateTunnelToken gives a tunnel a new token. Its other tokens stay valid for the overlap at most.
func (t *Tunnels) RotateTunnelToken(ctx context.Context, account, id string, token domain.TunnelToken, overlap time.Duration) (domain.Tunnel, error) {
	var tunnel domain.Tunnel
	err := t.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := t.getRow(tx, account, id, store.LockChange)
		if err != nil {
			return err
		}
		now := t.db.Now()
		if err := endTokens(tx, id, now, overlap); err != nil {
			return err
		}
		if err := tx.Create(&tokenRow{Hash: token.Hash, TunnelID: id, CreatedAt: store.InstantOf(now)}).Error; err != nil {
			return fmt.Errorf("insert token of tunnel: %w", err)
		}
		row.TokenSuffix, row.UpdatedAt = token.Suffix, store.InstantOf(now)
		live, err := t.liveConnections(tx, id)
		if err != nil {
			return err
		}
		tunnel = row.domain(live)
		if err := t.auditChange(ctx, tx, auditlog.ActionRotateTunnelToken, &row); err != nil {
			return err
		}
		return t.saveRow(ctx, tx, &row)
	})
	return tunnel, store.Wrap("rotate token of tunnel", err)
}

// endTokens makes the tokens of a tunnel end after the overlap, unless they end earlier. Tokens
// that have ended are deleted.
func endTokens(tx *gorm.DB, tunnel string, now time.Time, overlap time.Duration) error {
	end := store.InstantOf(now.Add(overlap))
	if overlap > 0 {
		err := tx.Model(&tokenRow{}).Where("tunnel_id = ? AND (ends_at IS NULL OR ends_at > ?)", tunnel, end).UpdateColumn("ends_at", end).Error
		if err != nil {
			return fmt.Errorf("end tokens of tunnel: %w", err)
		}
	}
	query := tx.Where("tunnel_id = ?", tunnel)
	if overlap > 0 {
		query = query.Where("ends_at <= ?", store.InstantOf(now))
	}
	if err := query.Delete(&tokenRow{}).Error; err != nil {
		return fmt.Errorf("delete tokens of tunnel: %w", err)
	}
	return nil
}

// DeleteTunnel removes a tunnel. Its tokens end at once. The operation has ended when no agent is
// connected any more.
func (t *Tunnels) DeleteTunnel(ctx context.Context, account, id string) (domain.TunnelOperation, error) {
	var operation operationRow
	err := t.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := t.getRow(tx, account, id, store.LockChange)
		if err != nil {
			return err
		}
		now := t.db.Now()
		if err := t.supersede(tx, &row); err != nil {
			return err
		}
		if err := endTokens(tx, id, now, 0); err != nil {
			return err
		}
		operation = operationRow{
			ID: store.NewID(prefixTeardown, idLength), Account: account, TunnelID: id, Kind: kindTeardown, Status: domain.OperationInProgress,
			Message: "The connections of the tunnel end.", CreatedAt: store.InstantOf(now),
		}
		row.RemovedAt, row.UpdatedAt = store.InstantOf(now), store.InstantOf(now)
		if err := t.auditChange(ctx, tx, auditlog.ActionDeleteTunnel, &row); err != nil {
			return err
		}
		return t.beginOperation(ctx, tx, &row, &operation)
	})
	return operation.domain(), store.Wrap("delete tunnel", err)
}

// TeardownOperation returns an operation of DeleteTunnel.
func (t *Tunnels) TeardownOperation(ctx context.Context, account, tunnel, id string) (domain.TunnelOperation, error) {
	return t.operation(ctx, account, tunnel, id, kindTeardown)
}

// ProvisioningOperation returns an operation of ConfigureTunnel.
func (t *Tunnels) ProvisioningOperation(ctx context.Context, account, tunnel, id string) (domain.TunnelOperation, error) {
	return t.operation(ctx, account, tunnel, id, kindProvisioning)
}

func (t *Tunnels) operation(ctx context.Context, account, tunnel, id, kind string) (domain.TunnelOperation, error) {
	if !store.Storable(account, tunnel, id) {
		return domain.TunnelOperation{}, domain.ErrNotFound
	}
	var row operationRow
	err := t.db.Reading(ctx).Where("id = ? AND account = ? AND tunnel_id = ? AND kind = ?", id, account, tunnel, kind).Take(&row).Error
	return row.domain(), store.Wrap("get operation of tunnel", err)
}

// getRow returns the row of a tunnel that was not removed.
func (t *Tunnels) getRow(tx *gorm.DB, account, id, lock string) (tunnelRow, error) {
	var row tunnelRow
	if !store.Storable(account, id) {
		return row, domain.ErrNotFound
	}
	err := t.db.Lock(tx.Where("id = ? AND account = ? AND removed_at IS NULL", id, account), lock).Take(&row).Error
	return row, err
}

// liveConnections returns the connections of tunnels that were renewed recently, the oldest first.
func (t *Tunnels) liveConnections(tx *gorm.DB, tunnels ...string) ([]connectionRow, error) {
	var rows []connectionRow
	if len(tunnels) == 0 {
		return nil, nil
	}
	since := store.InstantOf(t.db.Now().Add(-domain.TunnelFreshTime))
	err := tx.Where("tunnel_id IN ? AND renewed_at > ?", tunnels, since).Order("connected_at, id").Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read connections of tunnel: %w", err)
	}
	return rows, nil
}

func (t *Tunnels) auditChange(ctx context.Context, tx *gorm.DB, action string, row *tunnelRow) error {
	return t.audit.Note(ctx, tx, action, row.Account, domain.Resource{Type: auditlog.ResourceTunnel, ID: row.ID, Name: row.Name})
}

// saveRow writes the columns of a row that the api and operations set, with the next version. Call
// it last in the transaction.
func (t *Tunnels) saveRow(ctx context.Context, tx *gorm.DB, row *tunnelRow) error {
	var err error
	if row.Version, err = deployments.NextVersion(ctx, tx); err != nil {
		return err
	}
	err = tx.Select("token_suffix", "services", "operation", "version", "updated_at", "removed_at").Updates(row).Error
	if err != nil {
		return fmt.Errorf("update tunnel row: %w", err)
	}
	return nil
}
