package gateway

import (
	"cmp"
	"fmt"
	"net/http"

	"waybill.dev/services/gateway/internal/tunnel"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/store/tunnels"
	agreed "waybill.dev/shared/tunnel"
)

// newTunnels returns the tunnels that this gateway serves.
func newTunnels(o Options) (*tunnel.Tunnels, error) {
	hasher, err := authenticator.NewHasher(o.Keyring.Derive(agreed.Purpose))
	if err != nil {
		return nil, fmt.Errorf("make tunnels: %w", err)
	}
	return tunnel.New(tunnel.Options{
		Store: tunnels.New(o.Store), Bus: o.Bus, Hasher: hasher, Process: cmp.Or(o.Process, "gateway"), Logger: o.Logger, Registerer: o.Registerer,
	}), nil
}

// agents passes connections of agents to behind, and every other request to other.
func agents(behind, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == agreed.ConnectPath {
			behind.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}
