// Package deliveries has the console's pages of deliveries: the list with its filters, one
// delivery with the answer to "why was this not delivered?", and sending many again.
package deliveries

import (
	"embed"
	"net/http"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath     = "/console/deliveries"
	onePath      = listPath + "/{deliveryId}"
	againPath    = listPath + "/send-again"
	chosenPath   = againPath + "/chosen"
	pairPath     = "/console/events/{eventId}/webhooks/{webhookId}"
	jobPath      = "/console/jobs"
	findPath     = "/console/find"
	retryManyAPI = "/v1/deliveries/retry"
)

// Module returns the pages.
func Module() console.Module {
	return console.Module{
		Name: "deliveries", Templates: files,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: listPath, Handle: list},
			{Method: http.MethodGet, Path: onePath, Handle: show},
			{Method: http.MethodPost, Path: onePath + "/retry", Handle: retry},
			{Method: http.MethodGet, Path: pairPath, Handle: pair},
			{Method: http.MethodGet, Path: againPath, Handle: preview},
			{Method: http.MethodPost, Path: againPath, Handle: start},
			{Method: http.MethodGet, Path: chosenPath, Handle: chosen},
			{Method: http.MethodPost, Path: chosenPath, Handle: sendChosen},
		},
		Nav: []console.NavEntry{{Label: "Deliveries", Path: listPath, Icon: "deliveries", Order: console.OrderDeliveries, Key: "d", Scopes: []domain.Scope{domain.ScopeEventsRead}}},
	}
}
