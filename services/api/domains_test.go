package api_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill.dev/services/api"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/deployments/deploymentstest"
)

const domainsPath = "/v1/accounts/default/custom-domains"

// dns is what name servers know.
type dns struct {
	mu      sync.Mutex
	records map[string][]string
	asked   []string
	away    bool
	slow    bool // it answers nobody before they give up
}

// set sets the TXT records of a name.
func (d *dns) set(name string, values ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.records == nil {
		d.records = make(map[string][]string)
	}
	d.records[name+"."] = values
}

// fail says whether name servers answer that they can't.
func (d *dns) fail(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// LookupTXT implements api.Resolver.
func (d *dns) LookupTXT(ctx context.Context, name string) ([]string, error) {
	d.mu.Lock()
	slow := d.slow
	d.mu.Unlock()
	if slow {
		<-ctx.Done()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, name)
	if ctx.Err() != nil {
		return nil, &net.DNSError{Err: ctx.Err().Error(), Name: name, IsTimeout: true}
	}
	if d.away {
		return nil, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
	}
	values, ok := d.records[name]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return values, nil
}

// eachWithDNS runs a test on both databases, with an api that looks in DNS.
func eachWithDNS(t *testing.T, test func(t *testing.T, r *rig, d *dns)) {
	t.Helper()
	for name, url := range map[string]func(*testing.T) string{"sqlite": sqliteURL, "postgres": func(t *testing.T) string { t.Helper(); return shared.Postgres(t) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &dns{}
			r := prepareRig(t, url(t))
			r.options = func(o *api.Options) {
				o.Resolver, o.GatewayURL, o.PublicURL = d, "https://gateway.example.com:8443", "https://hooks.example.com"
			}
			r.start()
			test(t, r, d)
		})
	}
}

// deployed puts a deployment of an account's branch into the database.
func (r *rig) deployed(account, branch string) string {
	r.t.Helper()
	d := deploymentstest.Deployment{Account: account, Project: "shop", Branch: branch, Format: "zip", Archive: []byte("PK")}
	d.Set(r.t, r.store.Store, domain.DeploymentStarted)
	return d.Name()
}

func leading(hostname, deployment string) string {
	return fmt.Sprintf(`{"hostname":%q,"deploymentName":%q}`, hostname, deployment)
}

func (a answer) errors() string { return strings.Join(a.list("errors"), " ") }

func (a answer) list(name string) []string {
	a.t.Helper()
	var list []string
	for _, one := range a.object()[name].([]any) {
		list = append(list, one.(string))
	}
	return list
}

func (a answer) record() (name, value string) {
	of := a.object()["ownershipVerification"].(map[string]any)
	return of["name"].(string), of["value"].(string)
}

// Name servers that do not answer keep nobody from adding a domain, or from asking for it.
func TestDomainsWithSlowNameServers(t *testing.T) {
	t.Parallel()
	eachWithDNS(t, func(t *testing.T, r *rig, d *dns) {
		d.mu.Lock()
		d.slow = true
		d.mu.Unlock()
		body := leading("slow.example.org", r.deployed("default", "main"))
		made := r.do(http.MethodPost, domainsPath, body).want(http.StatusCreated)
		again := r.insist(http.MethodPost, domainsPath+"/verify", `{"hostname":"slow.example.org"}`).want(http.StatusOK)
		if got := again.errors(); !strings.Contains(got, "did not answer in time") {
			t.Errorf("asked for, it says %q", got)
		}
		d.mu.Lock()
		d.slow = false
		d.mu.Unlock()
		name, value := made.record()
		d.set(name, value)
		r.insist(http.MethodPost, domainsPath+"/verify", `{"hostname":"slow.example.org"}`).want(http.StatusOK).field("status", "active")
	})
}

// A domain is active once DNS has the record, and says until then what is missing. The first
// account that shows it has the hostname.
func TestDomainsAreVerified(t *testing.T) {
	t.Parallel()
	eachWithDNS(t, func(t *testing.T, r *rig, d *dns) {
		r.project("shop")
		second := r.secondAccount("second")
		main, next := r.deployed("default", "main"), r.deployed("default", "next")
		made := r.do(http.MethodPost, domainsPath, leading("API.Example.org.", main)).want(http.StatusCreated).
			field("hostname", "api.example.org").field("status", "pending").field("deploymentName", main).field("stage", "api").field("cname", "domains.gateway.example.com")
		record, token := made.record()
		if record != "_waybill.api.example.org" || made.errors() != "DNS has no TXT record _waybill.api.example.org." || made.header.Get("Location") != "https://hooks.example.com"+domainsPath {
			t.Errorf("%s, Location %q", made.body, made.header.Get("Location"))
		}
		r.do(http.MethodPost, domainsPath, leading("api.example.org", main)).want(http.StatusConflict).field("detail", "The account has this hostname already.")

		theirs := "/v1/accounts/second/custom-domains"
		waits := r.do(http.MethodPost, theirs, `{"hostname":"api.example.org"}`, as(second)).want(http.StatusCreated).field("status", "pending").field("deploymentName", nil)
		_, theirToken := waits.record()
		d.set(record, "v=spf1 -all", strings.Repeat("x", 300))
		wrong := r.do(http.MethodPost, domainsPath+"/verify", `{"hostname":"api.example.org"}`).want(http.StatusOK).field("status", "pending")
		if !strings.Contains(wrong.errors(), `has another value: "v=spf1 -all"`) || strings.Contains(wrong.errors(), theirToken) || len(wrong.errors()) > 300 {
			t.Errorf("%s", wrong.body)
		}
		for _, theirs := range []string{theirToken, strings.ToUpper(theirToken), `"` + theirToken + `"`, token + " " + theirToken} {
			d.set(record, theirs)
			masked := r.do(http.MethodPost, domainsPath+"/verify", `{"hostname":"api.example.org"}`).want(http.StatusOK).field("status", "pending")
			if strings.Contains(strings.ToLower(masked.errors()), strings.ToLower(theirToken)) || !strings.Contains(masked.errors(), "has another value: (a proof that is not this account's).") {
				t.Errorf("with %s in DNS: %s", theirs, masked.body)
			}
		}
		d.set(record, token+".")
		if mistyped := r.do(http.MethodPost, domainsPath+"/verify", `{"hostname":"api.example.org"}`).want(http.StatusOK); !strings.Contains(mistyped.errors(), token+".") {
			t.Errorf("the account's own value, with a dot: %s", mistyped.body)
		}
		d.fail(true)
		r.do(http.MethodPost, domainsPath+"/verify", `{"hostname":"api.example.org"}`).want(http.StatusOK).field("status", "pending")
		d.fail(false)
		d.set(record, "v=spf1 -all", token)
		active := r.do(http.MethodPost, domainsPath+"/verify", `{"hostname":"api.example.org"}`).want(http.StatusOK).field("status", "active").field("errors", []any{}).field("noticeUntil", nil).object()
		if next := moment(t, active["nextCheckOn"]).Sub(moment(t, active["provenOn"])); next < 6*24*time.Hour || next > 8*24*time.Hour {
			t.Errorf("DNS is asked again after %s", next)
		}

		d.set(record, token, theirToken)
		r.do(http.MethodPost, theirs+"/verify", `{"hostname":"api.example.org"}`, as(second)).want(http.StatusConflict).field("detail", "Another account has the hostname.")
		listed := r.do(http.MethodGet, theirs, "", as(second)).want(http.StatusOK).items("data")[0]
		if listed["status"] != "pending" || !strings.Contains(fmt.Sprint(listed["errors"]), "Another account has the hostname, and its proof is in the TXT record, too.") {
			t.Errorf("the second account sees %v", listed)
		}
		r.do(http.MethodDelete, theirs+"?hostname=api.example.org", "", as(second)).want(http.StatusNoContent)
		again := r.do(http.MethodPost, theirs, `{"hostname":"api.example.org"}`, as(second)).want(http.StatusCreated).field("status", "pending")
		if strings.Contains(again.errors(), "account has") {
			t.Errorf("without a proof, the second account learns whose the hostname is: %s", again.body)
		}

		r.do(http.MethodPatch, domainsPath, leading("api.example.org", next)).want(http.StatusOK).field("deploymentName", next)
		item := r.do(http.MethodGet, domainsPath, "").want(http.StatusOK).field("total", 1.0).items("data")[0]
		if at := item["deployments"].([]any)[0].(map[string]any); at["deploymentName"] != next || at["branch"] != "next" || at["environmentType"] != "PREVIEW" || item["projectName"] != "shop" {
			t.Errorf("listed: %v", item)
		}
		// A deployment that goes leaves the domain, and one of its name that comes later does not get it.
		r.do(http.MethodDelete, "/v1/deployments/"+next, "").want(http.StatusNoContent)
		r.deployed("default", "next")
		item = r.do(http.MethodGet, domainsPath, "").want(http.StatusOK).items("data")[0]
		if at := item["deployments"].([]any)[0].(map[string]any); at["deploymentName"] != nil || item["status"] != "active" {
			t.Errorf("after its deployment is gone: %v", item)
		}
		r.do(http.MethodDelete, domainsPath+"?hostname=API.example.org&deploymentName="+main, "").want(http.StatusNotFound)
		r.do(http.MethodDelete, domainsPath+"?hostname=API.example.org", "").want(http.StatusNoContent)
		r.do(http.MethodDelete, domainsPath+"?hostname=api.example.org", "").want(http.StatusNotFound).field("detail", "There is no such custom domain.")
		log := string(r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=100", "").want(http.StatusOK).body)
		for _, action := range []string{"create-custom-domain", "update-custom-domain", "verify-custom-domain", "delete-custom-domain"} {
			if !strings.Contains(log, `"`+action+`"`) {
				t.Errorf("the audit log lacks %s", action)
			}
		}
	})
}

// DNS is asked again without being told to. What is found is noted as the change of who made the
// domain.
func TestDomainsAreLookedUp(t *testing.T) {
	t.Parallel()
	eachWithDNS(t, func(t *testing.T, r *rig, d *dns) {
		record, token := r.do(http.MethodPost, domainsPath, `{"hostname":"api.example.org"}`).want(http.StatusCreated).record()
		d.set(record, token)
		due := r.store.Moment(time.Now().Add(-time.Second))
		writing, _ := r.store.Handles()
		if _, err := writing.ExecContext(t.Context(), "UPDATE gateway_domains SET next_check_at = $1", due); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is active", func() bool {
			return r.do(http.MethodGet, domainsPath, "").want(http.StatusOK).items("data")[0]["status"] == "active"
		})
		log := string(r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=100", "").want(http.StatusOK).body)
		if !strings.Contains(log, `"verify-custom-domain"`) {
			t.Errorf("the audit log lacks it: %s", log)
		}
	})
}

// Without DNS, who comes first has a hostname.
func TestDomainsWithoutVerification(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	second := r.secondAccount("second")
	r.do(http.MethodPost, domainsPath, `{"hostname":"api.example.org"}`).want(http.StatusCreated).field("status", "active").field("cname", nil)
	r.do(http.MethodPost, "/v1/accounts/second/custom-domains", `{"hostname":"api.example.org"}`, as(second)).want(http.StatusConflict)
	r.do(http.MethodPost, domainsPath+"/verify", `{"hostname":"api.example.org"}`).want(http.StatusOK).field("status", "active")
}

// What can't be a custom domain is refused, in whatever spelling.
func TestDomainBodies(t *testing.T) {
	t.Parallel()
	d := &dns{}
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) {
		o.Resolver, o.GatewayURL, o.PublicURL = d, "https://gateway.example.com:8443", "https://hooks.example.com"
	}
	r.start()
	r.project("shop")
	working := r.deployed("default", domain.WorkingCopy)
	for _, hostname := range []string{
		"", "example", "localhost", "api.localhost", "API.LOCALHOST.", "127.0.0.1", "[::1]", "::1", "127.1", "0x7f.1", "*.example.org", "api..example.org", ".example.org",
		"-api.example.org", "api_1.example.org", "api.example.org:443", "https://api.example.org", "api.example.org/x", "a b.example.org", "api.example.123",
		"gateway.example.com", "shop.gateway.example.com", "SHOP.Gateway.Example.COM.", "a.b.gateway.example.com", "hooks.example.com", "Hooks.Example.Com.",
		"xn--a.example.org", "xn--.example.org", "api.example.org..", strings.Repeat("a", 64) + ".example.org", strings.Repeat("a.", 130) + "org", "ｇateway.example.com",
	} {
		body, err := json.Marshal(map[string]string{"hostname": hostname})
		if err != nil {
			t.Fatal(err)
		}
		r.do(http.MethodPost, domainsPath, string(body)).faults("/hostname")
	}
	for hostname, want := range map[string]string{"München.example.org": "xn--mnchen-3ya.example.org", "GATEWAY.example.org": "gateway.example.org", "xgateway.example.com": "xgateway.example.com", "example.org.": "example.org"} {
		r.do(http.MethodPost, domainsPath, fmt.Sprintf(`{"hostname":%q}`, hostname)).want(http.StatusCreated).field("hostname", want)
	}
	r.do(http.MethodPost, domainsPath, `{"hostname":"XN--MNCHEN-3YA.example.org"}`).want(http.StatusConflict)
	r.do(http.MethodPost, domainsPath, `{}`).faults("/hostname")
	r.do(http.MethodPost, domainsPath, `{"hostname":"a.example.org","stage":"dev-portal","isAlias":true,"deploymentName":"local","x":1}`).faults("/deploymentName", "/isAlias", "/stage", "/x")
	r.do(http.MethodPost, domainsPath, leading("a.example.org", working)).faults("/deploymentName")
	second := r.secondAccount("second")
	foreign := r.do(http.MethodPost, "/v1/accounts/second/custom-domains", leading("a.example.org", r.deployed("default", "main")), as(second)).want(http.StatusNotFound)
	nobody := r.do(http.MethodPost, "/v1/accounts/second/custom-domains", leading("a.example.org", "no-such-deployment"), as(second)).want(http.StatusNotFound)
	if !bytes.Equal(ownPlace.ReplaceAll(foreign.body, nil), ownPlace.ReplaceAll(nobody.body, nil)) {
		t.Errorf("a foreign deployment shows:\n%s\n%s", foreign.body, nobody.body)
	}
	r.do(http.MethodPatch, domainsPath, `{"hostname":"example.org","deploymentName":null}`).faults("/deploymentName")
	r.do(http.MethodPatch, domainsPath, `{"hostname":"nobody.example.org"}`).want(http.StatusNotFound)
	r.do(http.MethodDelete, domainsPath, "").want(http.StatusBadRequest)
	for n := range domain.MaxCustomDomains - 4 {
		r.do(http.MethodPost, domainsPath, fmt.Sprintf(`{"hostname":"n%d.example.org"}`, n)).want(http.StatusCreated)
	}
	r.do(http.MethodPost, domainsPath, `{"hostname":"more.example.org"}`).want(http.StatusConflict).field("detail", "The account has 100 custom domains. It can't have more.")
}

// certified is a certificate of its own authority.
type certified struct{ chain, key string }

func certify(tb testing.TB, key any, name string, from, until time.Time) certified {
	template := &x509.Certificate{SerialNumber: big.NewInt(255), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: from, NotAfter: until}
	public := any(nil)
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		public = key.Public()
	case *rsa.PrivateKey:
		public = key.Public()
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return certified{encoded("CERTIFICATE", raw), encoded("PRIVATE KEY", secret)}
}

func encoded(kind string, raw []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}

func (c certified) body(hostname string) string {
	text, err := json.Marshal(map[string]string{"hostname": hostname, "certificate": c.chain, "privateKey": c.key})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func freshKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// nobody is no test: what can't fail is made outside of one.
type nobody struct{ testing.TB }

// certificateBody uploads a good certificate of a hostname.
func certificateBody(hostname string) string {
	return certify(nobody{}, freshKey(), hostname, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)).body(hostname)
}

// An uploaded certificate must be for the host, valid now, and fit its key, which nobody sees again.
func TestUploadedCertificates(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		r.do(http.MethodPost, domainsPath, `{"hostname":"api.example.org"}`).want(http.StatusCreated)
		at, hour := domainsPath+"/certificate", time.Hour
		key := freshKey()
		ends := time.Now().Add(hour).Truncate(time.Second)
		good := certify(t, key, "api.example.org", time.Now().Add(-hour), ends)
		short, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			t.Fatal(err)
		}
		other := certify(t, freshKey(), "api.example.org", time.Now().Add(-hour), ends)
		for name, row := range map[string]struct {
			c      certified
			faults []string
		}{
			"another host":     {certify(t, key, "www.example.org", time.Now().Add(-hour), ends), []string{"/certificate"}},
			"ended":            {certify(t, key, "api.example.org", time.Now().Add(-2*hour), time.Now().Add(-hour)), []string{"/certificate"}},
			"not yet":          {certify(t, key, "api.example.org", time.Now().Add(hour), time.Now().Add(2*hour)), []string{"/certificate"}},
			"weak":             {certify(t, short, "api.example.org", time.Now().Add(-hour), ends), []string{"/certificate"}},
			"another key":      {certified{good.chain, other.key}, []string{"/privateKey"}},
			"no key":           {certified{good.chain, good.chain}, []string{"/privateKey"}},
			"key in the chain": {certified{good.chain + good.key, good.key}, []string{"/certificate"}},
			"no PEM":           {certified{"x", "y"}, []string{"/certificate"}},
			"no certificate":   {certified{encoded("CERTIFICATE", []byte("x")), good.key}, []string{"/certificate"}},
		} {
			answer := r.do(http.MethodPut, at, row.c.body("api.example.org"))
			answer.faults(row.faults...)
			if strings.Contains(string(answer.body), "PRIVATE") {
				t.Errorf("%s: %s", name, answer.body)
			}
		}
		info := r.do(http.MethodPut, at, good.body("API.example.org")).want(http.StatusOK).
			field("subject", "CN=api.example.org").field("serialNumber", "ff").field("validTo", ends.UTC().Format("2006-01-02T15:04:05.000Z"))
		item := r.do(http.MethodGet, domainsPath, "").want(http.StatusOK)
		if c := item.items("data")[0]["certificate"].(map[string]any); c["status"] != "active" || c["source"] != "uploaded" {
			t.Errorf("listed with %v", c)
		}
		expiring := r.do(http.MethodGet, "/v1/expiring", "").want(http.StatusOK).items("data")
		if len(expiring) != 1 || expiring[0]["kind"] != "domainCertificate" || expiring[0]["hostname"] != "api.example.org" {
			t.Errorf("expiring: %v", expiring)
		}
		audit := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=100", "").want(http.StatusOK)
		secret := strings.Split(good.key, "\n")[1]
		for where, text := range map[string]string{"the answer": string(info.body), "the list": string(item.body), "the audit log": string(audit.body), "the log": r.logs.String()} {
			if strings.Contains(text, secret) {
				t.Errorf("%s tells the key", where)
			}
		}
		r.do(http.MethodPut, at, good.body("nobody.example.org")).faults("/certificate")
		r.do(http.MethodPut, at, certificateBody("nobody.example.org")).want(http.StatusNotFound)
		r.do(http.MethodDelete, at, `{"hostname":"api.example.org"}`).want(http.StatusNoContent)
		r.do(http.MethodDelete, at, `{"hostname":"api.example.org"}`).want(http.StatusNotFound).field("detail", "There is no such custom domain, or it has no uploaded certificate.")
	})
}
