package growthtest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"waybill.dev/services/api"
)

// pages has the queries with which a page of the console is asked for, beside none at all.
func pages(d deliveryIDs) map[string][]call {
	return map[string][]call{
		"/console/find":                         {{query: "q=" + event}},
		"/console/deliveries":                   {{}, {as: "status", query: "status=failed"}, {as: "webhook", query: "webhookId=" + webhook}},
		"/console/deliveries/send-again":        {{query: "status=failed"}},
		"/console/deliveries/send-again/chosen": {{query: "id=" + d.failed}},
		"/console/rejected/message":             {{query: "sequence=1", refused: http.StatusNotFound}},
		"/console/domains/delete":               {{query: "hostname=h1.example.com"}},
		"/console/domains/certificate/delete":   {{query: "hostname=h1.example.com"}},
		"/console/access/admin-key":             {{refused: http.StatusNotFound}}, // it is shown after it was made
	}
}

// signIn opens a session of the console.
func (r *rig) signIn(t *testing.T) {
	t.Helper()
	form := url.Values{"key": {adminKey}}.Encode()
	a := r.do(t, http.MethodPost, "/console/sign-in", form, func(q *http.Request) {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.Header.Set("Sec-Fetch-Site", "same-origin")
		q.Header.Del("Authorization")
	})
	if a.status != http.StatusSeeOther {
		t.Fatalf("sign in: %d %.300s", a.status, a.body)
	}
	r.cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
}

func (r *rig) page(t *testing.T, target string) answer {
	t.Helper()
	return r.do(t, http.MethodGet, target, "", func(q *http.Request) {
		q.Header.Del("Authorization")
		q.Header.Set("Cookie", r.cookie)
	})
}

// Each page of the console does as much on the large database as on the small one. Acts do what the
// operation does that they call.
func TestPages(t *testing.T) {
	each(t, func(t *testing.T, dialect string, p *pair) {
		few, many := newRig(t, &p.small), newRig(t, &p.large)
		few.signIn(t)
		many.signIn(t)
		w := newWatch(t, dialect)
		for _, route := range api.Pages() {
			if route.Method != http.MethodGet {
				continue
			}
			calls := []call{{}}
			if known := pages(few.deliveries)[route.Path]; known != nil {
				calls = known
			}
			for i, c := range calls {
				other := c
				if known := pages(many.deliveries)[route.Path]; known != nil {
					other = known[i]
				}
				name := "page " + route.Path
				if c.as != "" {
					name += ", " + c.as
				}
				a := few.page(t, withQuery(names(few.deliveries).Replace(route.Path), c.query))
				b := many.page(t, withQuery(names(many.deliveries).Replace(route.Path), other.query))
				if a.status >= http.StatusBadRequest && a.status != c.refused || strings.Contains(a.header.Get("Location"), "/sign-in") {
					t.Errorf("%s: answered %d\n%.300s", name, a.status, message(a.body))
				}
				if b.status != a.status {
					w.late(name, b.status)
				}
				w.compare(name, a.did, b.did)
			}
		}
		w.end()
	})
}

func withQuery(target, query string) string {
	if query == "" {
		return target
	}
	return target + "?" + query
}

// message is the text of a page without its frame, as far as it is to be had simply.
func message(page string) string {
	_, text, ok := strings.Cut(page, "<main")
	if !ok {
		return page
	}
	return strings.Join(strings.Fields(text), " ")
}
