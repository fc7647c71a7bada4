package tunnels

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// ErrToken means that a token is not valid.
var ErrToken = errors.New("the token is not valid")

// ErrRemoved means that the connection is not known any more.
var ErrRemoved = errors.New("the connection is gone")

// ServedTunnel is a tunnel as gateways get it.
type ServedTunnel struct {
	ID       string
	Account  string
	Services domain.TunnelServices // the ones in force
	// Operation is the operation in progress; empty: none. Next is the services configuration that
	// agents must accept for the operation; nil: the operation is not about one.
	Operation string
	Next      *domain.TunnelServices
	Removed   bool
}

// Connection is what a gateway gets when it accepts a connection.
type Connection struct {
	ID     string // of the connection
	Tunnel ServedTunnel
}

// ServedTunnels returns the tunnels of all accounts that changed after version since, removed ones
// included, and the version that this covers. since 0: all that exist.
func (t *Tunnels) ServedTunnels(ctx context.Context, since int64) ([]ServedTunnel, int64, error) {
	var served []ServedTunnel
	var version int64
	err := t.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if err := tx.Raw("SELECT version FROM gateway_version WHERE id = 1").Scan(&version).Error; err != nil {
			return err
		}
		query := tx.Where("version > ?", since)
		if since == 0 {
			query = tx.Where("removed_at IS NULL OR operation <> ''")
		}
		var rows []tunnelRow
		if err := query.Find(&rows).Error; err != nil {
			return err
		}
		var err error
		served, err = withNext(tx, rows)
		return err
	})
	return served, version, store.Wrap("read served tunnels", err)
}

// withNext adds the services configurations of operations in progress.
func withNext(tx *gorm.DB, rows []tunnelRow) ([]ServedTunnel, error) {
	var ids []string
	for i := range rows {
		if rows[i].Operation != "" {
			ids = append(ids, rows[i].Operation)
		}
	}
	next := make(map[string]string)
	if len(ids) > 0 {
		var operations []operationRow
		if err := tx.Select("id", "document").Where("id IN ?", ids).Find(&operations).Error; err != nil {
			return nil, fmt.Errorf("read operations of tunnels: %w", err)
		}
		for _, o := range operations {
			next[o.ID] = o.Document
		}
	}
	served := make([]ServedTunnel, len(rows))
	for i := range rows {
		var err error
		if served[i], err = rows[i].served(next[rows[i].Operation]); err != nil {
			return nil, err
		}
	}
	return served, nil
}

func (r *tunnelRow) served(next string) (ServedTunnel, error) {
	s := ServedTunnel{ID: r.ID, Account: r.Account, Operation: r.Operation, Removed: r.RemovedAt != 0}
	var err error
	if s.Services, err = readServices(r.Services); err != nil || next == "" {
		return s, err
	}
	services, err := readServices(next)
	s.Next = &services
	return s, err
}

// ServicesOf returns the services in force of an account's tunnels, by their names.
func (t *Tunnels) ServicesOf(ctx context.Context, account string) (map[string]domain.TunnelService, error) {
	var documents []string
	if !store.Storable(account) {
		return nil, nil
	}
	err := t.db.Reading(ctx).Model(&tunnelRow{}).Where("account = ? AND removed_at IS NULL AND services <> ''", account).Pluck("services", &documents).Error
	if err != nil {
		return nil, store.Wrap("read services of account", err)
	}
	services := make(map[string]domain.TunnelService)
	for _, document := range documents {
		read, err := readServices(document)
		if err != nil {
			return nil, store.Wrap("read services of account", err)
		}
		for _, s := range read.Services {
			services[s.Name] = s
		}
	}
	return services, nil
}

// ConnectTunnel stores the connection of an agent whose token has one of the hashes. It uses
// Process and AgentVersion of c. ErrToken: there is no such token, or it has ended. ErrLimit: the
// tunnel has MaxTunnelConnections.
func (t *Tunnels) ConnectTunnel(ctx context.Context, hashes [][]byte, c domain.TunnelConnection) (Connection, error) {
	var made Connection
	err := t.db.Tx(ctx, func(tx *gorm.DB) error {
		now := t.db.Now()
		var token tokenRow
		found := tx.Where("hash IN ? AND (ends_at IS NULL OR ends_at > ?)", hashes, store.InstantOf(now)).Limit(1).Find(&token)
		if found.Error != nil {
			return fmt.Errorf("look token up: %w", found.Error)
		}
		if found.RowsAffected == 0 {
			return ErrToken
		}
		// With this lock, operations of the tunnel wait until they see the connection.
		var row tunnelRow
		found = t.db.Lock(tx, store.LockChange).Where("id = ? AND removed_at IS NULL", token.TunnelID).Limit(1).Find(&row)
		if found.Error != nil {
			return fmt.Errorf("read tunnel: %w", found.Error)
		}
		if found.RowsAffected == 0 {
			return ErrToken
		}
		live, err := t.liveConnections(tx, row.ID)
		if err != nil {
			return err
		}
		if len(live) >= domain.MaxTunnelConnections {
			return fmt.Errorf("tunnel has %d connections: %w", len(live), domain.ErrLimit)
		}
		made, err = t.connect(tx, &row, c, now)
		return err
	})
	return made, store.Wrap("connect tunnel", err)
}

func (t *Tunnels) connect(tx *gorm.DB, row *tunnelRow, c domain.TunnelConnection, now time.Time) (Connection, error) {
	connection := connectionRow{
		ID: store.NewID(prefixConnection, idLength), TunnelID: row.ID, Process: c.Process, AgentVersion: c.AgentVersion,
		ConnectedAt: store.InstantOf(now), RenewedAt: store.InstantOf(now),
	}
	if err := tx.Create(&connection).Error; err != nil {
		return Connection{}, fmt.Errorf("insert connection of tunnel: %w", err)
	}
	if err := tx.Model(row).UpdateColumn("connected_at", store.InstantOf(now)).Error; err != nil {
		return Connection{}, fmt.Errorf("note connection of tunnel: %w", err)
	}
	served, err := withNext(tx, []tunnelRow{*row})
	if err != nil {
		return Connection{}, err
	}
	return Connection{connection.ID, served[0]}, nil
}

// TunnelTokens returns when each of the tokens ends; the zero time: it does not end. Tokens that
// have ended are left out. Keys are hashes, as strings.
func (t *Tunnels) TunnelTokens(ctx context.Context, hashes [][]byte) (map[string]time.Time, error) {
	var rows []tokenRow
	if len(hashes) == 0 {
		return nil, nil
	}
	err := t.db.Reading(ctx).Where("hash IN ? AND (ends_at IS NULL OR ends_at > ?)", hashes, store.InstantOf(t.db.Now())).Find(&rows).Error
	if err != nil {
		return nil, store.Wrap("read tokens of tunnels", err)
	}
	ends := make(map[string]time.Time, len(rows))
	for _, row := range rows {
		ends[string(row.Hash)] = row.EndsAt.Time()
	}
	return ends, nil
}

// RenewConnections notes that connections still exist.
func (t *Tunnels) RenewConnections(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	err := t.db.Again(ctx, func() error {
		return t.db.Writing(ctx).Model(&connectionRow{}).Where("id IN ?", ids).UpdateColumn("renewed_at", store.InstantOf(t.db.Now())).Error
	})
	return store.Wrap("renew connections of tunnels", err)
}

// EndConnection notes that a connection has ended.
func (t *Tunnels) EndConnection(ctx context.Context, id string) error {
	err := t.db.Again(ctx, func() error { return t.db.Writing(ctx).Where("id = ?", id).Delete(&connectionRow{}).Error })
	return store.Wrap("end connection of tunnel", err)
}

// AnswerConfiguration stores an agent's answer to the services configuration of an operation: why
// it refuses it; empty: it has accepted it.
func (t *Tunnels) AnswerConfiguration(ctx context.Context, connection, operation, refused string) error {
	err := t.db.Again(ctx, func() error {
		result := t.db.Writing(ctx).Model(&connectionRow{}).Where("id = ?", connection).
			UpdateColumns(map[string]any{"answered": operation, "refused": refused})
		if result.Error == nil && result.RowsAffected == 0 {
			return ErrRemoved
		}
		return result.Error
	})
	return store.Wrap("note answer of agent", err)
}

// lostFor is how long the row of a connection stays after its gateway is gone.
const lostFor = time.Hour

// Purge removes operations that ended and tunnels that were removed a day ago, tokens that have
// ended, and connections whose gateway is gone.
func (t *Tunnels) Purge(ctx context.Context, now time.Time) error {
	for _, p := range []struct {
		table, key, condition string
		before                time.Time
	}{
		{"gateway_tunnel_operations", "id", "finished_at < ?", now.Add(-domain.TunnelOperationTime)},
		{"gateway_tunnel_tokens", "hash", "ends_at < ?", now},
		{"gateway_tunnel_connections", "id", "renewed_at < ?", now.Add(-lostFor)},
		{"gateway_tunnels", "id", "operation = '' AND removed_at < ?", now.Add(-domain.TunnelOperationTime)},
	} {
		if _, err := t.db.Purge(ctx, p.table, p.key, p.condition, store.InstantOf(p.before)); err != nil {
			return store.Wrap("purge "+p.table, err)
		}
	}
	return nil
}
