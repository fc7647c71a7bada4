package tunnels

import (
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// masked stands for the part of a token that is not shown.
const masked = "****"

// Tunnel is a tunnel as callers see it.
type Tunnel struct {
	TunnelID    string              `json:"tunnelId"`
	Name        string              `json:"name"`
	Token       string              `json:"token"`
	Status      domain.TunnelStatus `json:"status"`
	Connections []Connection        `json:"connections"`
	CreatedOn   *string             `json:"createdOn"`
	UpdatedOn   *string             `json:"updatedOn"`
}

// Connection is a connection of an agent.
type Connection struct {
	ID           string  `json:"id"`
	Process      string  `json:"process"`
	AgentVersion string  `json:"agentVersion"`
	ConnectedOn  *string `json:"connectedOn"`
}

// view shows a tunnel with its token masked.
func view(t domain.Tunnel) Tunnel {
	return Tunnel{
		TunnelID: t.ID, Name: t.Name, Token: masked + t.TokenSuffix, Status: t.Status,
		Connections: web.Views(t.Connections, func(c domain.TunnelConnection) Connection {
			return Connection{c.ID, c.Process, c.AgentVersion, web.Stamp(c.ConnectedOn)}
		}),
		CreatedOn: web.Stamp(t.CreatedOn), UpdatedOn: web.Stamp(t.UpdatedOn),
	}
}

// Item is a tunnel in a list.
type Item struct {
	ID          string              `json:"id"`
	Name        string              `json:"name"`
	Status      domain.TunnelStatus `json:"status"`
	Connections int                 `json:"connections"`
	CreatedOn   *string             `json:"createdOn"`
	UpdatedOn   *string             `json:"updatedOn"`
}

// item shows a tunnel in a list.
func item(t domain.Tunnel) Item {
	return Item{t.ID, t.Name, t.Status, len(t.Connections), web.Stamp(t.CreatedOn), web.Stamp(t.UpdatedOn)}
}

// Operation is a change that agents are given.
type Operation struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	Details string `json:"details,omitempty"`
}

func showOperation(o domain.TunnelOperation) Operation {
	return Operation{o.ID, o.Status, o.Message, o.Details}
}
