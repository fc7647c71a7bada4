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

func (r *rig) page(t *testing.T, method, target, form string) answer {
	t.Helper()
	return r.do(t, method, target, form, func(q *http.Request) {
		q.Header.Del("Authorization")
		q.Header.Set("Cookie", r.cookie)
		if method != http.MethodGet {
			q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			q.Header.Set("Sec-Fetch-Site", "same-origin")
		}
	})
}

// Each page of the console does as much on the large database as on the small one, and as much if other accounts have
// the rest. What is sent from a page, see forms, does so, too.
func TestPages(t *testing.T) {
	each(t, func(t *testing.T, dialect string, p *trio) {
		rigs := []*rig{newRig(t, &p.small), newRig(t, &p.large), newRig(t, &p.spread)}
		for _, r := range rigs {
			r.signIn(t)
		}
		w := newWatch(t, dialect)
		known := forms()
		for _, route := range api.Pages() {
			form, ok := known[route.Path]
			if sent := route.Method != http.MethodGet; sent && !ok {
				t.Errorf("nothing is sent to the page %s: add its form to forms", route.Path)
			} else if sent {
				delete(known, route.Path)
				w.page(route.Path, route.Method, []call{form}, rigs)
			} else {
				w.page(route.Path, route.Method, nil, rigs)
			}
		}
		for path := range known {
			t.Errorf("there is no page %s to send a form to", path)
		}
		w.end()
	})
}

// page opens a page, or sends a form to it, on each of the databases.
func (w *watch) page(path, method string, forms []call, rigs []*rig) {
	w.t.Helper()
	calls := func(r *rig) []call {
		if known := pages(r.deliveries)[path]; known != nil && forms == nil {
			return known
		} else if forms != nil {
			return forms
		}
		return []call{{}}
	}
	for i, c := range calls(rigs[0]) {
		if c.elsewhere {
			continue
		}
		name := "page " + path
		if method != http.MethodGet {
			name = "form of " + path
		}
		if c.as != "" {
			name += ", " + c.as
		}
		var answers []answer
		for _, r := range rigs {
			c := calls(r)[i]
			if c.path == "" {
				c.path = path
			}
			answers = append(answers, r.page(w.t, method, withQuery(names(r.deliveries).Replace(c.path), c.query), c.body))
		}
		few := answers[0]
		if few.status >= http.StatusBadRequest && few.status != c.refused || strings.Contains(few.header.Get("Location"), "/sign-in") {
			w.t.Errorf("%s: answered %d\n%.700s", name, few.status, message(few.body))
		}
		if many := answers[1]; many.status != few.status {
			w.late(name, many.status)
		}
		w.compare(name, few.did, answers[1].did)
		w.beside(name, few.did, answers[2].did)
	}
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
