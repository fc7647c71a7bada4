package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/store/clientcas"
	"waybill.dev/shared/store/domains"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/units"
)

// checkCertificate reads the operator's own certificate.
func (s *site) checkCertificate(context.Context) []judge.Finding {
	if s.Settings.TLSCert == "" {
		return one(finding.None(settings.TLSCert + " is not set"))
	}
	pair, err := tls.LoadX509KeyPair(s.Settings.TLSCert, s.Settings.TLSKey)
	if err != nil {
		return one(judge.Bad("can't be used: "+reason(err), "No process with TLS starts with it.", "correct "+settings.TLSCert+" and "+settings.TLSKey))
	}
	return one(ends("the certificate of "+settings.TLSCert, pair.Leaf.NotAfter, time.Now()))
}

func ends(what string, at, now time.Time) judge.Finding {
	left := at.Sub(now)
	const do = "renew it; the file is read again when it changes"
	switch {
	case left < 0:
		return judge.Bad(what+" ended "+units.Duration(-left)+" ago", "Clients refuse to connect.", do)
	case left < domain.ExpirySoon:
		return judge.Warn(fmt.Sprintf("%s ends in %s, on %s", what, units.Duration(left), at.UTC().Format(time.DateOnly)), "When it has ended, clients refuse to connect.", do)
	}
	return judge.Good(fmt.Sprintf("%s is good for %s", what, units.Duration(left)), "Nothing is to be done yet.")
}

// checkExpiries counts the things in the database that expire soon, over all accounts.
func (s *site) checkExpiries(ctx context.Context) []judge.Finding {
	db, none := s.open()
	if db == nil {
		return none
	}
	now := time.Now()
	counts, err := pipeline.New(db).CountExpiring(ctx, now)
	hosts := domains.New(db)
	for _, count := range []func() (domain.ExpiryCount, error){
		func() (domain.ExpiryCount, error) { return clientcas.New(db).CountExpiringClientCAs(ctx, now) },
		func() (domain.ExpiryCount, error) { return hosts.CountExpiringCertificates(ctx, now) },
		func() (domain.ExpiryCount, error) { return hosts.CountExpiringDomains(ctx) },
	} {
		if err == nil {
			var more domain.ExpiryCount
			more, err = count()
			counts = append(counts, more)
		}
	}
	if err != nil {
		return one(finding.None("can't be read: " + err.Error()))
	}
	found := expiries(append(counts, s.keysThatEnd(now)...), now)
	if len(found) == 0 {
		return one(judge.Good("nothing within 14 days", "No certificate, key or secret needs to be renewed."))
	}
	return found
}

func expiries(counts []domain.ExpiryCount, now time.Time) []judge.Finding {
	var found []judge.Finding
	for _, c := range counts {
		if c.N == 0 {
			continue
		}
		when := "the first in " + units.Duration(c.Soonest.Sub(now))
		if c.Soonest.Before(now) {
			when = "the first ended " + units.Duration(now.Sub(c.Soonest)) + " ago"
		}
		f := judge.Warn(fmt.Sprintf("%s: %d, %s", c.Kind, c.N, when), "What ends is refused from then on.", "waybill expiring, with a key of each account, says which and what to do")
		f.Name = "in 14 days"
		found = append(found, f)
	}
	return found
}

// keysThatEnd returns the counts of API keys from the metrics of the leading relay: only the API
// reads the tables of keys.
func (s *site) keysThatEnd(now time.Time) []domain.ExpiryCount {
	for _, p := range s.parts() {
		for name, n := range p.metrics {
			kind := `kind="` + string(domain.ExpiryAPIKey) + `"`
			if !strings.HasPrefix(name, "waybill_expiring{") || !strings.Contains(name, kind) || n == 0 {
				continue
			}
			left := p.metrics["waybill_expiring_soonest_seconds{"+kind+"}"]
			return []domain.ExpiryCount{{Kind: domain.ExpiryAPIKey, N: int(n), Soonest: now.Add(time.Duration(left * float64(time.Second)))}}
		}
	}
	return nil
}
