package tunnels

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
)

// ErrServiceName means that another tunnel of the account has a service with the same name.
var ErrServiceName = errors.New("the name of a service is taken")

// ErrConfiguring means that another services configuration of the tunnel is in progress.
var ErrConfiguring = errors.New("another configuration is on its way")

// TunnelServices returns the services configuration in force.
func (t *Tunnels) TunnelServices(ctx context.Context, account, id string) (domain.TunnelServices, error) {
	row, err := t.getRow(t.db.Reading(ctx), account, id, store.LockNone)
	if err != nil {
		return domain.TunnelServices{}, store.Wrap("get services of tunnel", err)
	}
	services, err := readServices(row.Services)
	return services, store.Wrap("get services of tunnel", err)
}

// ConfigureTunnel begins to give a tunnel another services configuration. It is in force once all
// agents have accepted it. If the document is in force or in progress already, the result is its
// operation. The errors are ErrServiceName and ErrConfiguring.
func (t *Tunnels) ConfigureTunnel(ctx context.Context, account, id string, services domain.TunnelServices) (domain.TunnelOperation, error) {
	document, err := writeServices(services)
	if err != nil {
		return domain.TunnelOperation{}, err
	}
	var operation operationRow
	err = t.db.Tx(ctx, func(tx *gorm.DB) error {
		// Names are compared with those of all the account's tunnels, so only one such change may
		// run at a time.
		if _, err := accounts.Take(t.db.Lock(tx, store.LockChange), account); err != nil {
			return err
		}
		row, err := t.getRow(tx, account, id, store.LockChange)
		if err != nil {
			return err
		}
		same, err := t.findSame(tx, &row, document, &operation)
		if err != nil || same {
			return err
		}
		if err := t.namesFree(tx, &row, services); err != nil {
			return err
		}
		now := store.InstantOf(t.db.Now())
		operation = operationRow{
			ID: store.NewID(prefixProvision, idLength), Account: account, TunnelID: id, Kind: kindProvisioning, Status: domain.OperationInProgress,
			Message: "The agents are given the configuration.", Document: document, CreatedAt: now,
		}
		row.UpdatedAt = now
		if err := t.auditChange(ctx, tx, auditlog.ActionConfigureTunnel, &row); err != nil {
			return err
		}
		return t.beginOperation(ctx, tx, &row, &operation)
	})
	return operation.domain(), store.Wrap("configure tunnel", err)
}

// findSame finds the operation of a document that is in force or in progress.
func (t *Tunnels) findSame(tx *gorm.DB, row *tunnelRow, document string, operation *operationRow) (bool, error) {
	*operation = operationRow{}
	query := tx.Where("tunnel_id = ? AND kind = ? AND document = ?", row.ID, kindProvisioning, document)
	switch {
	case row.Operation != "":
		query = query.Where("id = ?", row.Operation)
	case row.Services == document:
		query = query.Where("status = ?", domain.OperationSuccess).Order("created_at DESC, id DESC")
	default:
		return false, nil
	}
	if err := query.Limit(1).Find(operation).Error; err != nil {
		return false, fmt.Errorf("read operation of tunnel: %w", err)
	}
	if operation.ID == "" && row.Operation != "" {
		return false, ErrConfiguring
	}
	return operation.ID != "", nil
}

// namesFree fails with ErrServiceName when another tunnel of the account has a service with one of
// the names, or will have one.
func (t *Tunnels) namesFree(tx *gorm.DB, row *tunnelRow, services domain.TunnelServices) error {
	var documents []string
	err := tx.Raw(`SELECT services FROM gateway_tunnels WHERE account = ? AND id <> ? AND removed_at IS NULL AND services <> ''
		UNION ALL SELECT o.document FROM gateway_tunnels t JOIN gateway_tunnel_operations o ON o.id = t.operation
		WHERE t.account = ? AND t.id <> ? AND t.removed_at IS NULL AND o.document <> ''`,
		row.Account, row.ID, row.Account, row.ID).Scan(&documents).Error
	if err != nil {
		return fmt.Errorf("read services of the account: %w", err)
	}
	taken := make(map[string]bool)
	for _, document := range documents {
		others, err := readServices(document)
		if err != nil {
			return err
		}
		for _, s := range others.Services {
			taken[s.Name] = true
		}
	}
	for _, s := range services.Services {
		if taken[s.Name] {
			return fmt.Errorf("%s: %w", s.Name, ErrServiceName)
		}
	}
	return nil
}

// beginOperation stores an operation, and ends it if there is no agent to wait for.
func (t *Tunnels) beginOperation(ctx context.Context, tx *gorm.DB, row *tunnelRow, operation *operationRow) error {
	if err := tx.Create(operation).Error; err != nil {
		return fmt.Errorf("insert operation of tunnel: %w", err)
	}
	row.Operation = operation.ID
	live, err := t.liveConnections(tx, row.ID)
	if err != nil {
		return err
	}
	if _, err := t.endIfDone(tx, row, operation, live); err != nil {
		return err
	}
	return t.saveRow(ctx, tx, row)
}

// supersede ends the operation in progress, because the tunnel is removed.
func (t *Tunnels) supersede(tx *gorm.DB, row *tunnelRow) error {
	if row.Operation == "" {
		return nil
	}
	operation := operationRow{ID: row.Operation}
	return t.endOperation(tx, row, &operation, domain.OperationError, "The tunnel was deleted.", "")
}

// SettleTunnel ends the operation in progress of a tunnel if its condition is met, and reports
// whether an operation is still in progress.
func (t *Tunnels) SettleTunnel(ctx context.Context, id string) (open bool, err error) {
	if !store.Storable(id) {
		return false, nil
	}
	err = t.db.Tx(ctx, func(tx *gorm.DB) error {
		open = false
		var row tunnelRow
		found := t.db.Lock(tx, store.LockChange).Where("id = ? AND operation <> ''", id).Limit(1).Find(&row)
		if found.Error != nil || found.RowsAffected == 0 {
			return found.Error
		}
		var operation operationRow
		if err := tx.Where("id = ?", row.Operation).Take(&operation).Error; err != nil {
			return fmt.Errorf("read operation of tunnel: %w", err)
		}
		live, err := t.liveConnections(tx, id)
		if err != nil {
			return err
		}
		ended, err := t.endIfDone(tx, &row, &operation, live)
		if err != nil || !ended {
			open = !ended
			return err
		}
		return t.saveRow(ctx, tx, &row)
	})
	return open, store.Wrap("settle tunnel", err)
}

// endIfDone ends an operation if it can.
func (t *Tunnels) endIfDone(tx *gorm.DB, row *tunnelRow, operation *operationRow, live []connectionRow) (bool, error) {
	if operation.Kind == kindTeardown {
		if len(live) > 0 {
			return false, nil
		}
		if err := tx.Where("tunnel_id = ?", row.ID).Delete(&connectionRow{}).Error; err != nil {
			return false, fmt.Errorf("delete connections of tunnel: %w", err)
		}
		return true, t.endOperation(tx, row, operation, domain.OperationSuccess, "The tunnel is deleted.", "")
	}
	var refused []string
	waiting := 0
	for _, c := range live {
		switch {
		case c.Answered != operation.ID:
			waiting++
		case c.Refused != "":
			refused = append(refused, c.Refused)
		}
	}
	late := t.db.Now().Sub(operation.CreatedAt.Time()) >= domain.TunnelConfigureTime
	switch {
	case len(refused) > 0:
		return true, t.endOperation(tx, row, operation, domain.OperationError, "An agent has refused the configuration. The one before goes on.", strings.Join(refused, "\n"))
	case waiting > 0 && late:
		return true, t.endOperation(tx, row, operation, domain.OperationError, "Not all agents have taken the configuration in time. The one before goes on.",
			fmt.Sprintf("%d of %d connections have not answered within %g s.", waiting, len(live), domain.TunnelConfigureTime.Seconds()))
	case waiting > 0:
		return false, nil
	}
	row.Services = operation.Document
	return true, t.endOperation(tx, row, operation, domain.OperationSuccess, "The configuration holds.", "")
}

func (t *Tunnels) endOperation(tx *gorm.DB, row *tunnelRow, operation *operationRow, status, message, details string) error {
	row.Operation = ""
	operation.Status, operation.Message, operation.Details = status, message, details
	operation.FinishedAt = store.InstantOf(t.db.Now())
	err := tx.Select("status", "message", "details", "finished_at").Updates(operation).Error
	if err != nil {
		return fmt.Errorf("end operation of tunnel: %w", err)
	}
	return nil
}
