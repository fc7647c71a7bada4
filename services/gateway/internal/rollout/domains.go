package rollout

import (
	"maps"

	"waybill.dev/services/gateway/internal/hosts"
	"waybill.dev/shared/store/domains"
)

// Custom returns what is known of a custom domain. One that leads to no deployment is its account's
// nevertheless.
func (r *Rollout) Custom(hostname string) (hosts.Site, bool) {
	byHost := r.byHost.Load()
	if byHost == nil {
		return hosts.Site{}, false
	}
	d := (*byHost)[hostname]
	if d == nil {
		return hosts.Site{}, false
	}
	site := hosts.Site{Account: d.Account, Domain: d, Handler: refusal{errMissing}}
	if d.Deployment != "" {
		site.Handler = r.Deployment(d.Deployment).Handler
	}
	return site, true
}

// takeDomains takes changes over; all says that they are everything there is. A hostname may have
// gone from one account to another meanwhile: that is two domains.
func (r *Rollout) takeDomains(changes []domains.Served, all bool) {
	if len(changes) == 0 && !all && r.byHost.Load() != nil {
		return
	}
	byID := make(map[string]*hosts.Domain, len(r.byID)+len(changes))
	if !all {
		maps.Copy(byID, r.byID)
	}
	for i := range changes {
		c := &changes[i]
		if c.Removed {
			delete(byID, c.ID)
			continue
		}
		byID[c.ID] = r.domain(c)
	}
	byHost := make(map[string]*hosts.Domain, len(byID))
	for _, d := range byID {
		byHost[d.Hostname] = d
	}
	r.byID = byID
	r.byHost.Store(&byHost)
	if r.options.DomainsChanged != nil {
		r.options.DomainsChanged()
	}
}

// domain returns what is known of a domain now. A certificate that was read goes on as long as it
// is the one that was uploaded.
func (r *Rollout) domain(c *domains.Served) *hosts.Domain {
	d := &hosts.Domain{ID: c.ID, Account: c.Account, Hostname: c.Hostname, Deployment: c.Deployment, Uploaded: c.Uploaded}
	if before := r.byID[c.ID]; before != nil && before.Uploaded == d.Uploaded {
		d.Certificate.Store(before.Certificate.Load())
	}
	return d
}
