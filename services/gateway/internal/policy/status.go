package policy

import (
	"context"

	"waybill.dev/services/gateway/internal/route"
)

// setStatus gives answers another status.
type setStatus int

type setStatusOptions struct{ Status float64 }

func setStatusPolicy() Policy {
	return Policy{
		Name: "set-status-outbound", Export: "SetStatusOutboundPolicy",
		About: "Gives the answer another status.",
		Options: `{
			"type": "object", "additionalProperties": false, "required": ["status"],
			"properties": {"status": {"type": "integer", "minimum": 200, "maximum": 599, "description": "The status."}}
		}`,
		Example: `{"status": 202}`,
		New:     typed(func(o *setStatusOptions, _ *Env) (Parts, []Fault) { return Parts{Out: setStatus(int(o.Status))}, nil }),
	}
}

// Out sets the status.
func (s setStatus) Out(_ context.Context, _ *route.Request, response *route.Response) (*route.Response, error) {
	response.Status = int(s)
	return response, nil
}
