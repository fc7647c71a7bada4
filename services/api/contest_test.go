package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/store/domains"
)

const (
	contestedHost = "api.example.org"
	rivalName     = "rival-gmbh"
	rivalPath     = "/v1/accounts/" + rivalName + "/custom-domains"
)

// contest is a hostname that the default account has, and that another one wants.
type contest struct {
	*rig

	dns    *dns
	key    string // of the other account
	record string // the name of the TXT record
	ours   string // the proof of the default account
	theirs string
}

func moment(t *testing.T, stamp any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, fmt.Sprint(stamp))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// newContest gives the hostname to the default account. The other one waits for it, and both are to be told by alerts.
func newContest(r *rig, d *dns) *contest {
	r.t.Helper()
	c := &contest{rig: r, dns: d, key: r.secondAccount(rivalName)}
	hook := `{"url":"https://hooks.example.org/alerts","events":["waybill.domain.contested","waybill.domain.moved"]}`
	r.do(http.MethodPost, "/v1/webhooks", hook).want(http.StatusCreated)
	r.do(http.MethodPost, "/v1/webhooks", hook, as(c.key)).want(http.StatusCreated)
	c.record, c.ours = r.do(http.MethodPost, domainsPath, hostBody).want(http.StatusCreated).record()
	d.set(c.record, c.ours)
	c.look().want(http.StatusOK).field("status", "active")
	_, c.theirs = r.do(http.MethodPost, rivalPath, hostBody, as(c.key)).want(http.StatusCreated).field("status", "pending").record()
	return c
}

const hostBody = `{"hostname":"` + contestedHost + `"}`

// look has the default account look in DNS, and lookAsRival the other one.
func (c *contest) look() answer {
	c.t.Helper()
	return c.do(http.MethodPost, domainsPath+"/verify", hostBody)
}

func (c *contest) lookAsRival() answer {
	c.t.Helper()
	return c.do(http.MethodPost, rivalPath+"/verify", hostBody, as(c.key))
}

// listed is the domain as the default account lists it.
func (c *contest) listed() map[string]any {
	c.t.Helper()
	return c.do(http.MethodGet, domainsPath, "").want(http.StatusOK).items("data")[0]
}

// began moves the beginning of the notice into the past.
func (c *contest) began(ago time.Duration) {
	c.t.Helper()
	c.update("UPDATE gateway_domains SET notice_at = $1 WHERE notice_at IS NOT NULL", time.Now().Add(-ago))
}

func (c *contest) update(statement string, at time.Time) {
	c.t.Helper()
	writing, _ := c.store.Handles()
	if _, err := writing.ExecContext(c.t.Context(), statement, c.store.Moment(at)); err != nil {
		c.t.Fatal(err)
	}
}

// audited compares what the contest has left in the audit logs of both accounts, the oldest first.
func (c *contest) audited(want ...string) {
	c.t.Helper()
	for path, tweaks := range map[string][]tweak{"/v1/accounts/default/audit-logs": nil, "/v1/accounts/" + rivalName + "/audit-logs": {as(c.key)}} {
		var got []string
		for _, entry := range c.do(http.MethodGet, path+"?limit=100", "", tweaks...).want(http.StatusOK).items("data") {
			action, _ := strings.CutSuffix(fmt.Sprint(entry["action"]), "-custom-domain")
			if slices.Contains([]string{"contest", "keep", "move"}, action) {
				got = slices.Insert(got, 0, action)
			}
		}
		if !slices.Equal(got, want) {
			c.t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
}

// told compares the alerts that the default account has, the oldest first. The other one has none.
func (c *contest) told(want ...string) (last map[string]any) {
	c.t.Helper()
	var got []string
	for _, event := range c.do(http.MethodGet, "/v1/events?source=waybill", "").want(http.StatusOK).items("data") {
		got = slices.Insert(got, 0, fmt.Sprint(event["type"]))
		if last == nil {
			last = event["data"].(map[string]any)
		}
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("alerts %q, want %q", got, want)
	}
	if list := c.do(http.MethodGet, "/v1/events", "", as(c.key)).want(http.StatusOK).items("data"); len(list) > 0 {
		c.t.Errorf("the other account is told of %v", list)
	}
	return last
}

// A newer proof wins after a notice of 72 hours. Only what name servers have answered counts.
func TestHostnamePasses(t *testing.T) {
	t.Parallel()
	eachWithDNS(t, func(t *testing.T, r *rig, d *dns) {
		c := newContest(r, d)
		certificate := certify(t, freshKey(), contestedHost, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		r.do(http.MethodPut, domainsPath+"/certificate", certificate.body(contestedHost)).want(http.StatusOK)
		before := c.listed()

		d.set(c.record, c.ours, c.theirs)
		c.lookAsRival().want(http.StatusConflict).field("detail", "Another account has the hostname.")
		d.set(c.record, c.theirs)
		d.fail(true)
		c.lookAsRival().want(http.StatusOK).field("noticeUntil", nil)
		c.look().want(http.StatusOK).field("status", "active").field("noticeUntil", nil)
		d.fail(false)
		c.look().want(http.StatusOK).field("noticeUntil", nil).field("errors", []any{})
		c.audited()
		c.told()

		waits := c.lookAsRival().want(http.StatusOK).field("status", "pending")
		until := moment(t, waits.object()["noticeUntil"])
		if left := time.Until(until); left < 71*time.Hour || left > 72*time.Hour || !strings.Contains(waits.errors(), "The hostname passes to this account on "+until.Format(time.RFC3339)) {
			t.Errorf("the other account sees %s", waits.body)
		}
		has := c.look().want(http.StatusOK).field("status", "active").field("noticeUntil", waits.object()["noticeUntil"])
		if !strings.Contains(has.errors(), "Set the record again before "+until.Format(time.RFC3339)) || time.Until(moment(t, has.object()["nextCheckOn"])) > time.Hour {
			t.Errorf("the account sees %s", has.body)
		}
		c.audited("contest")
		alert := c.told("waybill.domain.contested")
		if alert["hostname"] != contestedHost || !moment(t, alert["noticeUntil"]).Equal(until.Truncate(time.Second)) || alert["link"] != "https://hooks.example.com/console/domains" {
			t.Errorf("alert %v", alert)
		}
		if ends := r.do(http.MethodGet, "/v1/expiring", "").want(http.StatusOK).items("data"); len(ends) != 2 || ends[1]["kind"] != "customDomain" || ends[1]["hostname"] != contestedHost || !moment(t, ends[1]["expiresAt"]).Equal(until) {
			t.Errorf("what ends: %v", ends)
		}
		eventually(t, "the metrics tell of it", func() bool {
			n, soonest := r.ends()
			return n["customDomain"] == "1" && soonest["customDomain"] > 71*3600 && soonest["customDomain"] <= 72*3600
		})
		r.browser().signIn(adminKey).get("/console/problems").want(t, http.StatusOK, "").has(t, "Custom domain", contestedHost)
		r.browser().signIn(adminKey).get("/console/domains").want(t, http.StatusOK, "").has(t, "It passes to another account", "Look in DNS now", c.ours)
		r.browser().signIn(adminKey).get("/console/alerts").want(t, http.StatusOK, "").has(t, "contested", contestedHost)

		c.began(71 * time.Hour)
		c.lookAsRival().want(http.StatusOK).field("status", "pending")
		c.began(73 * time.Hour)
		d.fail(true)
		c.lookAsRival().want(http.StatusOK).field("status", "pending")
		c.look().want(http.StatusOK).field("status", "active")
		d.fail(false)
		c.update("UPDATE gateway_domains SET next_check_at = $1 WHERE removed_at IS NULL", time.Now().Add(-time.Second))
		eventually(t, "the hostname passes by itself", func() bool {
			return r.do(http.MethodGet, rivalPath, "", as(c.key)).want(http.StatusOK).items("data")[0]["status"] == "active"
		})
		c.audited("contest", "move")
		c.told("waybill.domain.contested", "waybill.domain.moved")
		after := c.listed()
		if after["status"] != "pending" || after["noticeUntil"] != nil || time.Since(moment(t, after["lostOn"])) > time.Minute || !strings.Contains(fmt.Sprint(after["certificate"]), "none") {
			t.Errorf("the account that had it sees %v", after)
		}
		c.served(fmt.Sprint(before["id"]))
		c.showsNothing(before, after)
	})
}

// served looks at what gateways learn of the hostname: the account that had it has it no more, with its certificate.
func (c *contest) served(had string) {
	c.t.Helper()
	changes, _, err := domains.New(c.store.Store).ServedDomains(c.t.Context(), 1)
	if err != nil || len(changes) != 2 {
		c.t.Fatalf("%+v, %v", changes, err)
	}
	first, second := changes[0], changes[1]
	if first.ID != had || !first.Removed || first.Uploaded != "" || second.Account != rivalName || second.Removed || second.Uploaded != "" {
		c.t.Errorf("gateways learn of %+v", changes)
	}
	if _, err := domains.New(c.store.Store).UploadedCertificate(c.t.Context(), had); err == nil {
		c.t.Error("the private key of the account that had it is kept")
	}
}

// showsNothing looks through all that either account sees for what is the other's.
func (c *contest) showsNothing(mine ...map[string]any) {
	c.t.Helper()
	rival := c.do(http.MethodGet, "/v1/who-am-i", "", as(c.key)).want(http.StatusOK).text("sub")
	foreign := map[string][]string{
		adminKey: {c.theirs, c.key, rivalName, rival, fmt.Sprint(c.do(http.MethodGet, rivalPath, "", as(c.key)).items("data")[0]["id"])},
		c.key:    {c.ours, adminKey, fmt.Sprint(mine[0]["id"]), fmt.Sprint(mine[1]["id"])},
	}
	for key, texts := range foreign {
		account := "default"
		if key == c.key {
			account = rivalName
		}
		in := c.browser().signIn(key)
		for _, path := range []string{"/v1/accounts/" + account + "/custom-domains", "/v1/accounts/" + account + "/audit-logs?action=contest-custom-domain", "/v1/accounts/" + account + "/audit-logs?action=move-custom-domain", "/v1/events", "/v1/expiring", "/console/domains", "/console/problems", "/console/alerts", "/console/audit?action=move-custom-domain"} {
			var body string
			if strings.HasPrefix(path, "/v1") {
				body = string(c.do(http.MethodGet, path, "", as(key)).want(http.StatusOK).body)
			} else {
				body = in.get(path).want(c.t, http.StatusOK, "").body
			}
			for _, text := range texts {
				if text == "" || strings.Contains(body, text) || strings.Contains(body, url.QueryEscape(text)) {
					c.t.Errorf("%s shows %s %q", path, account, text)
				}
			}
		}
	}
}

// A notice ends when the proof of the account is there again, also on the last hour, and when the other's is gone.
func TestNoticeEnds(t *testing.T) {
	t.Parallel()
	eachWithDNS(t, func(t *testing.T, r *rig, d *dns) {
		c := newContest(r, d)
		c.update("UPDATE gateway_domains SET proven_at = $1 WHERE verified_at IS NOT NULL", time.Now().Add(-time.Hour))
		proven := c.listed()["provenOn"]
		d.set(c.record)
		c.look().want(http.StatusOK).field("status", "active").field("provenOn", proven).field("noticeUntil", nil).field("errors", []any{})

		d.set(c.record, c.theirs)
		c.lookAsRival().want(http.StatusOK)
		third := r.secondAccount("third")
		_, proof := r.do(http.MethodPost, "/v1/accounts/third/custom-domains", hostBody, as(third)).want(http.StatusCreated).record()
		d.set(c.record, c.theirs, proof)
		r.do(http.MethodPost, "/v1/accounts/third/custom-domains/verify", hostBody, as(third)).want(http.StatusConflict)
		late := r.do(http.MethodGet, "/v1/accounts/third/custom-domains", "", as(third)).want(http.StatusOK).items("data")[0]
		if late["noticeUntil"] != nil || !strings.Contains(fmt.Sprint(late["errors"]), "Another account asked for the hostname before") {
			t.Errorf("who comes third sees %v", late)
		}
		c.audited("contest")

		c.began(73 * time.Hour)
		d.set(c.record, c.theirs, c.ours)
		again := c.look().want(http.StatusOK).field("status", "active").field("noticeUntil", nil).field("errors", []any{}).object()
		if time.Since(moment(t, again["provenOn"])) > time.Minute {
			t.Errorf("after the proof is back: %v", again)
		}
		if item := r.do(http.MethodGet, rivalPath, "", as(c.key)).items("data")[0]; item["noticeUntil"] != nil || !strings.Contains(fmt.Sprint(item["errors"]), "its proof is in the TXT record, too") {
			t.Errorf("the other account sees %v", item)
		}
		c.lookAsRival().want(http.StatusConflict)
		c.audited("contest", "keep")

		d.set(c.record, c.theirs)
		c.lookAsRival().want(http.StatusOK)
		c.began(73 * time.Hour)
		d.set(c.record)
		c.lookAsRival().want(http.StatusOK).field("status", "pending").field("noticeUntil", nil)
		c.look().want(http.StatusOK).field("status", "active").field("noticeUntil", nil).field("errors", []any{})
		c.audited("contest", "keep", "contest", "keep")
		c.told("waybill.domain.contested", "waybill.domain.contested")
		if ends := r.do(http.MethodGet, "/v1/expiring", "").want(http.StatusOK).items("data"); len(ends) > 0 {
			t.Errorf("what ends: %v", ends)
		}
	})
}

// Of several who look when the time has come, one lets the hostname pass.
func TestHostnamePassesOnce(t *testing.T) {
	t.Parallel()
	eachWithDNS(t, func(_ *testing.T, r *rig, d *dns) {
		c := newContest(r, d)
		d.set(c.record, c.theirs)
		c.lookAsRival().want(http.StatusOK)
		c.began(73 * time.Hour)
		var looking sync.WaitGroup
		for range 4 {
			looking.Go(func() { c.look() })
			looking.Go(func() { c.lookAsRival() })
		}
		looking.Wait()
		c.lookAsRival().want(http.StatusOK).field("status", "active")
		c.audited("contest", "move")
		c.told("waybill.domain.contested", "waybill.domain.moved")
		// It passes back in the same way.
		d.set(c.record, c.ours)
		c.look().want(http.StatusOK).field("status", "pending")
		c.began(73 * time.Hour)
		c.look().want(http.StatusOK).field("status", "active").field("lostOn", nil)
	})
}
