package rollout

import (
	"maps"

	"waybill.dev/services/gateway/internal/hosts"
	"waybill.dev/shared/store/domains"
)

// Custom returns the site of a custom domain. A domain that leads to no deployment still belongs to
// its account.
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

// takeDomains applies changes; all says that they are the complete list. A hostname may have passed
// from one account to another: then the changes have two domains with that hostname.
func (r *Rollout) takeDomains(changes []domains.ServedDomain, all bool) {
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

// domain returns the new state of a domain. A certificate that was read is kept as long as it is
// the uploaded one.
func (r *Rollout) domain(c *domains.ServedDomain) *hosts.Domain {
	d := &hosts.Domain{ID: c.ID, Account: c.Account, Hostname: c.Hostname, Deployment: c.Deployment, Uploaded: c.Uploaded}
	if before := r.byID[c.ID]; before != nil && before.Uploaded == d.Uploaded {
		d.Certificate.Store(before.Certificate.Load())
	}
	return d
}
