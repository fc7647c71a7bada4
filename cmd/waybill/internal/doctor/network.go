package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/units"
)

// names returns the hosts that this installation has to resolve.
func (s *site) names() []string {
	var names []string
	for _, text := range []string{s.URL, s.Settings.PublicURL, s.Settings.OIDCIssuer, s.Settings.ACMEDirectory} {
		if u, err := url.Parse(text); err == nil && u.Hostname() != "" && net.ParseIP(u.Hostname()) == nil && !slices.Contains(names, u.Hostname()) {
			names = append(names, u.Hostname())
		}
	}
	return names
}

func (s *site) checkNames(ctx context.Context) []judge.Finding {
	names := s.names()
	if len(names) == 0 {
		return one(finding.None("the settings name no host; give the URL of a receiver with --url"))
	}
	var found []judge.Finding
	resolver := &net.Resolver{PreferGo: true} // like callbacks
	for _, name := range names {
		began := time.Now()
		addresses, err := resolver.LookupHost(ctx, name)
		switch took := time.Since(began); {
		case err != nil:
			found = append(found, judge.Bad(name+" is not found: "+reason(err), "Nothing at that name can be reached.", "look at /etc/resolv.conf and at the name servers in it"))
		case took > time.Second:
			found = append(found, judge.Warn(fmt.Sprintf("%s was found after %s", name, units.Duration(took)), "Each new connection waits for this.", "look at the name servers in /etc/resolv.conf"))
		default:
			found = append(found, judge.Good(fmt.Sprintf("%s has %s", name, strings.Join(addresses[:min(3, len(addresses))], ", ")), "Names are found."))
		}
	}
	return found
}

// checkDomains says whether scripts of deployments' pages could set cookies for the console.
func (s *site) checkDomains(context.Context) []judge.Finding {
	u, err := url.Parse(s.Settings.PublicURL)
	domain := s.Settings.GatewayDomain
	if deployed, err := url.Parse(s.Settings.GatewayURL); err == nil && domain == "" {
		domain = deployed.Hostname()
	}
	if err != nil || u.Hostname() == "" || domain == "" {
		return one(finding.None("the settings name no public URL, or no domain of deployments"))
	}
	host := strings.ToLower(u.Hostname())
	if shared, err := publicsuffix.EffectiveTLDPlusOne(domain); err == nil && (host == shared || strings.HasSuffix(host, "."+shared)) {
		return one(judge.Warn(fmt.Sprintf("deployments (%s) and the console (%s) share the domain %s", domain, host, shared),
			"A script on a deployment's page can set cookies for that whole domain, and so lock browsers out of the console.",
			"give deployments a registrable domain of their own; docs/operators.md says how"))
	}
	return one(judge.Good(domain+" and "+host+" share no domain", "Browsers keep the cookies of deployments from the console."))
}

// checkProxy names the variables that other programs would take a proxy from.
func (s *site) checkProxy(context.Context) []judge.Finding {
	var set []string
	for _, variable := range s.Environ {
		name, value, _ := strings.Cut(variable, "=")
		if upper := strings.ToUpper(name); value != "" && (upper == "HTTP_PROXY" || upper == "HTTPS_PROXY" || upper == "ALL_PROXY") {
			set = append(set, name)
		}
	}
	if len(set) > 0 {
		return one(judge.Warn("set: "+strings.Join(set, ", "), "Callbacks use no proxy, whatever these say: they connect directly.", "let the dispatchers connect out directly, by the firewall"))
	}
	return one(judge.Good("none is set", "Callbacks connect directly, as they always do."))
}

// checkClock compares this machine's clock with that of an answer.
func (s *site) checkClock(ctx context.Context) []judge.Finding {
	asked := s.URL
	switch {
	case asked != "":
	case s.running.API != "":
		asked = s.running.API + "/healthz"
	case s.Settings.HTTPAddr != "":
		asked = local(s.Settings.HTTPAddr) + "/healthz"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, asked, http.NoBody)
	if err != nil {
		return one(finding.None("there is no URL to ask; give one with --url"))
	}
	transport := client.NewTransport()
	defer transport.CloseIdleConnections()
	caller := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := caller.Do(request)
	if err != nil {
		if s.URL == "" {
			return one(finding.None(asked + " does not answer; give another with --url"))
		}
		return one(judge.Bad(asked+" does not answer: "+reason(err), "Nothing there can be reached.", "waybill check "+asked))
	}
	defer response.Body.Close()
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return one(finding.None(asked + " tells no time"))
	}
	return one(clock("the clock of "+request.URL.Host, time.Since(at)))
}

// rootFiles returns the places where systems keep the certificates of authorities.
func rootFiles() []string {
	return []string{
		os.Getenv("SSL_CERT_FILE"), os.Getenv("SSL_CERT_DIR"), "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem",
	}
}

func (s *site) checkRoots(context.Context) []judge.Finding {
	found := judge.Good("those built into the program", "The system has none. Receivers with certificates of public authorities are trusted.")
	for _, path := range rootFiles() {
		if _, err := os.Stat(path); path != "" && err == nil {
			found = judge.Good("those of the system, "+path, "Receivers whose certificates these authorities have issued are trusted.")
			break
		}
	}
	list := one(found)
	if s.Settings.ACMECA != "" {
		if _, err := os.Stat(s.Settings.ACMECA); err != nil {
			list = append(list, judge.Bad(settings.ACMECA+" can't be read: "+reason(err), "No certificate can be ordered for custom domains.", "correct "+settings.ACMECA))
		}
	}
	return list
}
