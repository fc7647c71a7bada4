package tunnel

import (
	"context"
	"slices"

	"waybill.dev/services/gateway/internal/follow"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/tunnels"
	"waybill.dev/shared/tunnel"
)

// update reads changes of tunnels and applies them. If the database can't be read, the known state stays.
func (t *Tunnels) update(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	changes, all, err := follow.Read(ctx, &t.place, t.options.Store.ServedTunnels)
	if err != nil {
		t.options.Logger.Debug("it can't be read which tunnels there are; what is known goes on", "error", err)
		return
	}
	t.apply(changes, all)
	t.checkTokens(ctx)
}

// apply applies changes. If all is true, they are the complete list of tunnels.
func (t *Tunnels) apply(changes []tunnels.ServedTunnel, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if all {
		t.forget(changes)
	}
	for _, served := range changes {
		t.replace(served)
	}
}

// forget removes the tunnels that are missing in the complete list. t.mu is held.
func (t *Tunnels) forget(all []tunnels.ServedTunnel) {
	there := make(map[string]bool, len(all))
	for _, served := range all {
		there[served.ID] = true
	}
	for id, one := range t.byID {
		if !there[id] && one.known {
			gone := one.served
			gone.Removed, gone.Operation, gone.Next = true, "", nil
			t.replace(gone)
		}
	}
}

// replace applies the new state of a tunnel. t.mu is held.
func (t *Tunnels) replace(served tunnels.ServedTunnel) {
	one := t.byID[served.ID]
	if one == nil {
		one = &tunnelOf{}
		t.byID[served.ID] = one
	}
	for _, s := range one.served.Services.Services {
		key := serviceKey{one.served.Account, s.Name}
		if t.services[key].tunnel == served.ID {
			delete(t.services, key)
		}
	}
	one.served, one.known = served, true
	if served.Removed {
		t.remove(one)
		return
	}
	for _, s := range served.Services.Services {
		t.services[serviceKey{served.Account, s.Name}] = service{served.ID, s}
	}
	for _, c := range one.connections {
		c.unchecked.Store(true)
		t.provide(c, served)
	}
}

// remove ends the connections of a tunnel that was deleted. t.mu is held.
func (t *Tunnels) remove(one *tunnelOf) {
	for _, c := range slices.Clone(one.connections) {
		c.leave(closing{reason: "the tunnel was deleted", code: tunnel.CloseToken, drain: domain.TunnelDrainTime})
	}
	if len(one.connections) == 0 && one.served.Operation == "" {
		delete(t.byID, one.served.ID)
	}
}

// checkTokens ends the connections whose token has ended. The other connections are checked again when their
// token ends.
func (t *Tunnels) checkTokens(ctx context.Context) {
	t.mu.RLock()
	var check []*connection
	var hashes [][]byte
	for _, c := range t.connections() {
		if c.unchecked.Load() {
			check, hashes = append(check, c), append(hashes, c.hashes...)
		}
	}
	t.mu.RUnlock()
	if len(check) == 0 {
		return
	}
	ends, err := t.options.Store.TunnelTokens(ctx, hashes)
	if err != nil {
		t.options.Logger.Debug("tokens of tunnels can't be looked at; their connections go on", "error", err)
		return
	}
	for _, c := range check {
		end, ok := c.tokenEnd(ends)
		if !ok {
			c.leave(closing{reason: "the token is not valid any more", code: tunnel.CloseToken, drain: domain.TunnelDrainTime})
			continue
		}
		c.unchecked.Store(false)
		c.checkAt(end, func() {
			c.unchecked.Store(true)
			t.nudge()
		})
	}
}

// endDone ends operations that are done. It checks the tunnels with connections to this gateway. If others is true,
// it checks all tunnels, because the gateways of the others may be gone.
func (t *Tunnels) endDone(ctx context.Context, others bool) {
	t.mu.RLock()
	var open []string
	for id, one := range t.byID {
		if one.served.Operation != "" && (others || len(one.connections) > 0) {
			open = append(open, id)
		}
	}
	t.mu.RUnlock()
	for _, id := range open {
		t.settleOne(ctx, id)
	}
}

func (t *Tunnels) settleOne(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	open, err := t.options.Store.SettleTunnel(ctx, id)
	if err != nil {
		t.options.Logger.Debug("an operation of a tunnel can't be settled now", "tunnel", id, "error", err)
		return
	}
	if !open {
		t.nudge()
		t.announceChange()
	}
}
