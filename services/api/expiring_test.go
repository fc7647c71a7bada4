package api_test

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/certificate/certificatetest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth/receiverauthtest"
)

// expiring returns what ends, a line each: the kind, what it is, and when.
func (r *rig) expiring(key string) []string {
	r.t.Helper()
	var list struct {
		Data []struct {
			Kind         string `json:"kind"`
			ExpiresAt    string `json:"expiresAt"`
			WebhookID    string `json:"webhookId"`
			URL          string `json:"url"`
			SigningKeyID string `json:"signingKeyId"`
			BucketName   string `json:"bucketName"`
			ConsumerName string `json:"consumerName"`
			KeyID        string `json:"keyId"`
			CA           string `json:"caCertificateId"`
			CAName       string `json:"caCertificateName"`
			Advice       string `json:"advice"`
		} `json:"data"`
	}
	a := r.do(http.MethodGet, "/v1/expiring", "", header("Authorization", "Bearer "+key)).want(http.StatusOK).field("more", false)
	a.into(&list)
	lines := []string{}
	for _, e := range list.Data {
		if e.Advice == "" {
			r.t.Errorf("%+v has no advice", e)
		}
		what := strings.TrimSpace(strings.Join([]string{e.WebhookID, e.URL, e.SigningKeyID, e.BucketName, e.ConsumerName, e.KeyID, e.CA, e.CAName}, " "))
		lines = append(lines, fmt.Sprint(e.Kind, " ", strings.Join(strings.Fields(what), " "), " ", e.ExpiresAt))
	}
	return lines
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Everything that ends within 14 days is told to its account, to who may see it, and counted.
// What is renewed is told of no more.
func TestExpiring(t *testing.T) {
	t.Parallel()
	authority := receiverauthtest.New(t)
	eachDatabase(t, func(t *testing.T, r *rig) {
		const day = 24 * time.Hour
		now := time.Now().UTC().Truncate(time.Second)
		second := r.secondAccount("second")
		bucket := r.bucket("partners")
		consumer, reader := r.holder(bucket, "reader", domain.ScopeWebhooksRead)
		if got := r.expiring(adminKey); len(got) != 0 {
			t.Errorf("at first: %v", got)
		}
		mtls := func(ends time.Time) string {
			certificate, key := authority.Issue(t, "shop", ends)
			return object("type", "mtls", "certificate", certificate, "privateKey", key)
		}
		const url = "https://hooks.example.com/a"
		hook := r.register(`{"url":"` + url + `","events":["shipment.created"],"auth":` + mtls(now.Add(2*day)) + `}`).text("id")
		path := "/v1/webhooks/" + hook
		later := r.register(`{"url":"https://hooks.example.com/b","events":["shipment.created"],"auth":` + mtls(now.Add(14*day+time.Minute)) + `}`).text("id")
		seen := func(id string, ends time.Time) {
			t.Helper()
			w, _, err := r.store.GetWebhook(t.Context(), domain.DefaultAccount, domain.WebhookID(id))
			if err != nil {
				t.Fatal(err)
			}
			change := domain.HealthChange{Webhook: w.ID, Certificate: &domain.Certificate{ExpiresAt: ends, Version: w.Version}, At: time.Now()}
			if _, err := r.store.Record(t.Context(), []domain.RecordBatch{{Health: []domain.HealthChange{change}}}); err != nil {
				t.Fatal(err)
			}
		}
		seen(hook, now.Add(5*day))
		r.do(http.MethodGet, path, "").want(http.StatusOK).field("receiverCertificateExpiresAt", stamp(now.Add(5*day)))
		if got := r.do(http.MethodGet, "/v1/webhooks/"+later, "").want(http.StatusOK); strings.Contains(string(got.body), "receiverCertificate") {
			t.Errorf("nothing is known of its receiver: %s", got.body)
		}
		key := r.do(http.MethodPost, consumer+"/keys", `{"expiresOn":"`+now.Add(14*day-time.Minute).Format(time.RFC3339)+`"}`).want(http.StatusCreated).text("id")
		r.do(http.MethodPost, consumer+"/keys", `{"expiresOn":"`+now.Add(14*day+time.Minute).Format(time.RFC3339)+`"}`).want(http.StatusCreated)
		overlap := r.do(http.MethodPost, path+"/rotate-secret", `{"overlapSeconds":3600}`).want(http.StatusOK).text("previousSecretExpiresAt")
		first := r.do(http.MethodGet, signingKeysPath, "").keys().Data[0].ID
		ends := r.do(http.MethodPost, signingKeysPath+"/rotate", `{"overlapSeconds":7200}`).keys().Data[1].ExpiresAt

		ending := certificatetest.NewCA(t, "Partner CA", func(c *x509.Certificate) { c.NotAfter = now.Add(3*day - time.Minute).Truncate(time.Second) })
		ca := r.do(http.MethodPost, casPath, caBody(t, "partners", ending.PEM())).want(http.StatusCreated).text("id")

		webhook := " " + hook + " " + url + " "
		want := []string{
			"webhookSecret" + webhook + overlap,
			"signingKey " + first + " " + *ends,
			"clientCertificate" + webhook + stamp(now.Add(2*day)),
			"receiverCertificate" + webhook + stamp(now.Add(5*day)),
		}
		check := func(doing, key string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, r.expiring(key)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", doing, diff)
			}
		}
		caLine := "clientCaCertificate " + ca + " partners " + stamp(ending.NotAfter)
		check("all", adminKey, append(slices.Insert(slices.Clone(want), 3, caLine), "apiKey partners reader "+key+" "+stamp(now.Add(14*day-time.Minute)))...)
		check("a key that may read webhooks alone", reader, want...)
		if got := r.expiring(second); len(got) != 0 {
			t.Errorf("another account: %v", got)
		}
		shown := r.do(http.MethodGet, path, "").want(http.StatusOK).field("previousSecretExpiresAt", overlap)
		r.do(http.MethodPatch, path, string(shown.body)).want(http.StatusOK) // what was read can be sent back
		page := r.browser().signIn(adminKey).get("/console/problems").want(t, http.StatusOK, "")
		page.has(t, "Ends soon", "in 5 days", "in 14 days", "in 2 days", "less than an hour", url, "partners/reader", "/console/signing-keys",
			"/console/webhooks/"+hook+"/settings", "/console/certificates/"+ca, "/console/webhooks/"+hook+"/secret", "Renew the receiver", stamp(now.Add(5*day)))
		r.browser().signIn(adminKey).get("/console").want(t, http.StatusOK, "").has(t, "6 certificates, keys and secrets end")
		for _, link := range regexp.MustCompile(`<a href="(/console/[^"]+)" data-act>`).FindAllStringSubmatch(page.body, -1) {
			r.browser().signIn(adminKey).get(link[1]).want(t, http.StatusOK, "")
		}
		r.browser().signIn(second).get("/console/problems").want(t, http.StatusOK, "").has(t, "No problems", "No certificate, key or secret ends soon")
		r.counted(map[string]string{"receiverCertificate": "1", "clientCertificate": "1", "webhookSecret": "1", "signingKey": "1", "apiKey": "1", "domainCertificate": "0", "clientCaCertificate": "1", "customDomain": "0"})

		r.do(http.MethodPatch, path, `{"auth":`+mtls(now.Add(60*day))+`}`).want(http.StatusOK)
		r.do(http.MethodPost, path+"/rotate-secret", `{"overlapSeconds":0}`).want(http.StatusOK)
		r.do(http.MethodPost, signingKeysPath+"/rotate", `{"overlapSeconds":0}`).want(http.StatusOK)
		r.do(http.MethodDelete, consumer+"/keys/"+key, "").want(http.StatusNoContent)
		r.do(http.MethodDelete, casPath+"/"+ca, "").want(http.StatusNoContent)
		seen(hook, time.Time{})
		if got := r.expiring(adminKey); len(got) != 0 {
			t.Errorf("renewed: %v", got)
		}
		if got := r.do(http.MethodGet, path, "").want(http.StatusOK); strings.Contains(string(got.body), "ertificateExpiresAt") || strings.Contains(string(got.body), "previousSecret") {
			t.Errorf("renewed: %s", got.body)
		}
		seen(hook, now.Add(-time.Hour))
		check("a certificate that has ended", adminKey, "receiverCertificate"+webhook+stamp(now.Add(-time.Hour)))
		r.do(http.MethodPatch, path, `{"url":"https://hooks.example.com/c"}`).want(http.StatusOK)
		if got := r.expiring(adminKey); len(got) != 0 {
			t.Errorf("another URL: %v", got)
		}
	})
}

// counted waits until the metrics have so many of each kind.
func (r *rig) counted(want map[string]string) {
	r.t.Helper()
	eventually(r.t, "the metrics tell what ends", func() bool {
		got, soonest := r.ends()
		five := soonest["receiverCertificate"]
		return cmp.Equal(want, got) && five > 4.9*24*3600 && five <= 5*24*3600
	})
}

// ends returns what the metrics tell of what ends, by kind.
func (r *rig) ends() (n map[string]string, soonest map[string]float64) {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	n, soonest = map[string]string{}, map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetName() {
			case "waybill_expiring":
				n[m.GetLabel()[0].GetValue()] = fmt.Sprint(m.GetGauge().GetValue())
			case "waybill_expiring_soonest_seconds":
				soonest[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return n, soonest
}
