package tunnels

import (
	"encoding/json"
	"fmt"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// The kinds of operations.
const (
	kindTeardown     = "teardown"
	kindProvisioning = "provisioning"
)

// The database numbers tunnels (seq).

type tunnelRow struct {
	Seq         int64  `gorm:"->"`
	ID          string `gorm:"primaryKey"`
	Account     string
	Name        string
	TokenSuffix string
	Services    string
	Operation   string
	Version     int64
	CreatedAt   store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt   store.Instant `gorm:"autoUpdateTime:false"`
	ConnectedAt store.Instant
	RemovedAt   store.Instant
}

func (*tunnelRow) TableName() string { return "gateway_tunnels" }

type tokenRow struct {
	Hash      []byte `gorm:"primaryKey"`
	TunnelID  string
	CreatedAt store.Instant `gorm:"autoCreateTime:false"`
	EndsAt    store.Instant
}

func (*tokenRow) TableName() string { return "gateway_tunnel_tokens" }

type connectionRow struct {
	ID           string `gorm:"primaryKey"`
	TunnelID     string
	Process      string
	AgentVersion string
	ConnectedAt  store.Instant
	RenewedAt    store.Instant
	Answered     string
	Refused      string
}

func (*connectionRow) TableName() string { return "gateway_tunnel_connections" }

type operationRow struct {
	ID         string `gorm:"primaryKey"`
	Account    string
	TunnelID   string
	Kind       string
	Status     string
	Message    string
	Details    string
	Document   string
	CreatedAt  store.Instant `gorm:"autoCreateTime:false"`
	FinishedAt store.Instant
}

func (*operationRow) TableName() string { return "gateway_tunnel_operations" }

func (r *operationRow) domain() domain.TunnelOperation {
	return domain.TunnelOperation{ID: r.ID, TunnelID: r.TunnelID, Status: r.Status, Message: r.Message, Details: r.Details}
}

// domain returns the tunnel with its connections.
func (r *tunnelRow) domain(connections []connectionRow) domain.Tunnel {
	t := domain.Tunnel{
		ID: r.ID, Account: r.Account, Name: r.Name, TokenSuffix: r.TokenSuffix, Status: domain.TunnelInactive,
		CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(),
	}
	for _, c := range connections {
		t.Connections = append(t.Connections, domain.TunnelConnection{
			ID: c.ID, Process: c.Process, AgentVersion: c.AgentVersion, ConnectedOn: c.ConnectedAt.Time(),
		})
	}
	switch {
	case len(connections) > 0:
		t.Status = domain.TunnelUp
	case r.ConnectedAt != 0:
		t.Status = domain.TunnelDown
	}
	return t
}

// readServices reads the column of a services configuration. An empty column has no services.
func readServices(text string) (domain.TunnelServices, error) {
	services := domain.TunnelServices{Version: 1, Services: []domain.TunnelService{}}
	if text == "" {
		return services, nil
	}
	if err := json.Unmarshal([]byte(text), &services); err != nil {
		return services, fmt.Errorf("read services configuration: %w", err)
	}
	return services, nil
}

func writeServices(services domain.TunnelServices) (string, error) {
	text, err := json.Marshal(services)
	if err != nil {
		return "", fmt.Errorf("write services configuration: %w", err)
	}
	return string(text), nil
}
