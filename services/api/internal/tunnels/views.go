package tunnels

import (
	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/domain"
)

// masked stands for the part of a token that is not shown.
const masked = "****"

type tunnelView struct {
	TunnelID    string              `json:"tunnelId"`
	Name        string              `json:"name"`
	Token       string              `json:"token"`
	Status      domain.TunnelStatus `json:"status"`
	Connections []connectionView    `json:"connections"`
	CreatedOn   *string             `json:"createdOn"`
	UpdatedOn   *string             `json:"updatedOn"`
}

type connectionView struct {
	ID           string  `json:"id"`
	Process      string  `json:"process"`
	AgentVersion string  `json:"agentVersion"`
	ConnectedOn  *string `json:"connectedOn"`
}

// view shows a tunnel with its token masked.
func view(t domain.Tunnel) tunnelView {
	return tunnelView{
		TunnelID: t.ID, Name: t.Name, Token: masked + t.TokenSuffix, Status: t.Status,
		Connections: web.Views(t.Connections, func(c domain.TunnelConnection) connectionView {
			return connectionView{c.ID, c.Process, c.AgentVersion, web.Stamp(c.ConnectedOn)}
		}),
		CreatedOn: web.Stamp(t.CreatedOn), UpdatedOn: web.Stamp(t.UpdatedOn),
	}
}

type itemView struct {
	ID          string              `json:"id"`
	Name        string              `json:"name"`
	Status      domain.TunnelStatus `json:"status"`
	Connections int                 `json:"connections"`
	CreatedOn   *string             `json:"createdOn"`
	UpdatedOn   *string             `json:"updatedOn"`
}

// item shows a tunnel in a list.
func item(t domain.Tunnel) itemView {
	return itemView{t.ID, t.Name, t.Status, len(t.Connections), web.Stamp(t.CreatedOn), web.Stamp(t.UpdatedOn)}
}

type operationView struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	Details string `json:"details,omitempty"`
}

func showOperation(o domain.TunnelOperation) operationView {
	return operationView{o.ID, o.Status, o.Message, o.Details}
}
