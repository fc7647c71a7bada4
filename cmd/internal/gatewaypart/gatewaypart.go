// Package gatewaypart adds the gateway to a process.
package gatewaypart

import (
	"net/http"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/services/gateway"
)

// Add makes the gateway on the handles. The result answers on the process's HTTP address.
// Nothing of it runs beside that, so nothing is added to the process.
func Add(_ *boot.Process, h *boot.Handles) (http.Handler, error) {
	return gateway.NewHandler(gateway.Options{Store: h.Store, Bus: h.Bus}), nil
}
