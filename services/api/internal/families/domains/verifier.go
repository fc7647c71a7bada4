package domains

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/domains"
)

// Resolver asks DNS.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// Checks stores the answers of DNS.
type Checks interface {
	ClaimChecks(ctx context.Context, limit int) ([]domain.CustomDomain, error)
	NoteAnswer(ctx context.Context, d domain.CustomDomain, answer domains.Answer) (domains.CheckResult, error)
}

const (
	// lookTime is the limit of one look-up. The name server is the tenant's, and may never answer.
	lookTime = 4 * time.Second
	// dueEvery is the time between two searches for domains that are due.
	dueEvery = 5 * time.Second
	// atOnce is how many domains are looked up at a time.
	atOnce = 16
	// shownValues and shownLength bound the parts of existing records that are shown.
	shownValues = 5
	shownLength = 100
)

// Verifier checks in DNS that hostnames belong to the accounts that ask for them.
type Verifier struct {
	resolver Resolver
	checks   Checks
	link     string
	changed  func()
	log      *slog.Logger
}

// NewVerifier returns a verifier that uses the resolver. Link is the page of custom domains for alerts. The verifier
// calls changed when an account has got a hostname, or an alert may be due.
func NewVerifier(resolver Resolver, checks Checks, link string, changed func(), log *slog.Logger) *Verifier {
	return &Verifier{resolver, checks, link, changed, log}
}

// Check asks DNS about a domain, and returns its new state. It fails with domains.ErrTaken when the account has proved
// the hostname, but another account has it.
func (v *Verifier) Check(ctx context.Context, d domain.CustomDomain) (domain.CustomDomain, error) {
	noted, err := v.checks.NoteAnswer(ctx, d, v.ask(ctx, &d))
	if err != nil {
		return d, fmt.Errorf("check custom domain: %w", err)
	}
	if noted.Changed {
		v.changed()
	}
	if noted.HeldByOther {
		err = domains.ErrTaken
	}
	return noted.Domain, err
}

// ask asks DNS for the record of a domain. The dot at the end prevents the use of search domains. Half of the
// request's time is left for storing the answer.
func (v *Verifier) ask(ctx context.Context, d *domain.CustomDomain) domains.Answer {
	limit := lookTime
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	name := domain.DomainRecord + d.Hostname
	values, err := v.resolver.LookupTXT(ctx, name+".")
	var dns *net.DNSError
	answer := domains.Answer{Known: err == nil || errors.As(err, &dns) && dns.IsNotFound, Proofs: values, Link: v.link}
	if !slices.Contains(values, d.Token) {
		answer.Words = []string{words(name, d.Token, values, err)}
	}
	return answer
}

// words describes the answer of DNS. The proof of another account is private to it, and not shown.
func words(name, token string, values []string, err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound, err == nil && len(values) == 0:
		return "DNS has no TXT record " + name + "."
	case err != nil && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &dns) && dns.IsTimeout):
		return "The name servers of " + name + " did not answer in time."
	case err != nil:
		return "The name servers of " + name + " did not answer the question."
	}
	shown := make([]string, min(len(values), shownValues))
	for i := range shown {
		if strings.Contains(strings.ReplaceAll(strings.ToLower(values[i]), strings.ToLower(token), ""), domain.DomainProof) {
			shown[i] = "(a proof that is not this account's)"
			continue
		}
		shown[i] = strconv.QuoteToASCII(values[i][:min(len(values[i]), shownLength)])
	}
	return "The TXT record " + name + " has another value: " + strings.Join(shown, " ") + "."
}

// Run looks at the domains that are due until ctx ends.
func (v *Verifier) Run(ctx context.Context) error {
	ticker := time.NewTicker(dueEvery)
	defer ticker.Stop()
	for {
		if err := v.due(ctx); err != nil && ctx.Err() == nil {
			v.log.Warn("custom domains could not be checked; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// due looks at all domains that are due, some at a time.
func (v *Verifier) due(ctx context.Context) error {
	for ctx.Err() == nil {
		claimed, err := v.checks.ClaimChecks(ctx, atOnce)
		if err != nil || len(claimed) == 0 {
			return err
		}
		var looking sync.WaitGroup
		for _, d := range claimed {
			looking.Go(func() { v.one(ctx, d) })
		}
		looking.Wait()
	}
	return nil
}

func (v *Verifier) one(ctx context.Context, d domain.CustomDomain) {
	checked, err := v.Check(ctx, d)
	switch {
	case err == nil && checked.Active() && !d.Active():
		v.log.Info("an account has shown that a hostname is its own", "account", d.Account, "hostname", d.Hostname)
	case err != nil && !errors.Is(err, domains.ErrTaken) && !errors.Is(err, domain.ErrNotFound) && ctx.Err() == nil:
		v.log.Warn("what DNS answered could not be noted", "hostname", d.Hostname, "error", err)
	}
}
