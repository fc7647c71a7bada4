package api

import (
	"waybill.dev/services/api/internal/families/tunnels"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/tunnel"
)

func tunnelOptions(o *Options, db tables) tunnels.Options {
	options := tunnels.Options{
		Tunnels: db, Services: db,
		Changed: func() { o.Bus.Announce(bus.SubjectGateway, nil) },
	}
	if o.Keyring != nil {
		if hasher, err := authenticator.NewHasher(o.Keyring.Derive(tunnel.Purpose)); err == nil { // can only fail without a key
			options.Hash = func(token string) []byte { return hasher.Hashes(token)[0] }
		}
	}
	return options
}
