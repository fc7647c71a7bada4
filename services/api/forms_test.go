package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// URLs are shown as they are sent: what can't stand in one is percent-encoded, in new webhooks,
// in changed ones, and in those of token servers.
func TestURLsAreEncoded(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const (
			given = `http://127.0.0.1:9/h\u00f6ok%2F"x?q=caf\u00e9|a^b\"<>{}` + "`" + `&z=1&a=%20+&c;d`
			sent  = `http://127.0.0.1:9/h%C3%B6ok%2F%22x?q=caf%C3%A9%7Ca%5Eb%22%3C%3E%7B%7D%60&z=1&a=%20+&c;d`
		)
		quoted := strings.Replace(given, `"x`, `\"x`, 1)
		made := r.register(`{"url":"`+quoted+`","events":["shipment.created"]}`).field("url", sent)
		path := "/v1/webhooks/" + made.text("id")
		r.do(http.MethodGet, path, "").want(http.StatusOK).field("url", sent)
		r.do(http.MethodPatch, path, `{"url":"http://127.0.0.1:9/?`+"\u65e5"+`"}`).want(http.StatusOK).field("url", "http://127.0.0.1:9/?%E6%97%A5")
		auth := r.register(`{"url":"https://hooks.example.com/","events":["shipment.created"],"auth":` +
			object("type", "oauth2", "tokenUrl", "https://login.example.com/t?a=ü|", "clientId", "a", "clientSecret", "b") + "}")
		if got := r.keptAuth(auth.text("id")).TokenURL; got != "https://login.example.com/t?a=%C3%BC%7C" {
			t.Errorf("the token server is %s", got)
		}
		for _, wrong := range []string{"http://127.0.0.1:9/a b", `http://127.0.0.1:9/a\\b`, "http://127.0.0.1:9/?a#b", "http://127.0.0.1:9/?" + strings.Repeat("\u65e5", 300)} {
			r.do(http.MethodPost, "/v1/webhooks", `{"url":"`+wrong+`","events":["shipment.created"]}`).want(http.StatusBadRequest)
		}
	})
}

// Times and integers are taken in every form that RFC 3339 and JSON have for them, and events
// stay as they are written.
func TestFormsOfTimesAndIntegers(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		for i, at := range []string{"2026-01-02t03:04:05z", "2016-12-31T23:59:60Z", "1990-12-31t15:59:60.25-08:00", "9999-12-31T23:59:59-01:00"} {
			id := "evt_" + string(rune('a'+i))
			data := `{"shipmentId":"s","occurredAt":"` + at + `","sequence":7.0,"schemaVersion":1e3,"n":1.0}`
			r.publish(`{"id":"` + id + `","type":"shipment.created","timestamp":"` + at + `","data":` + data + `}`)
			if shown := string(r.do(http.MethodGet, "/v1/events/"+id, "").want(http.StatusOK).body); !strings.Contains(shown, `"timestamp":"`+at+`"`) || !strings.Contains(shown, data) {
				t.Errorf("%s is shown as %s", at, shown)
			}
			r.do(http.MethodGet, "/v1/events?since="+url.QueryEscape(at), "").want(http.StatusOK)
		}
		r.do(http.MethodPost, "/v1/events", `{"type":"shipment.created","timestamp":"2016-12-31T22:59:60Z","data":{"shipmentId":"s","sequence":1.5}}`).want(http.StatusBadRequest)
		hook := r.register(`{"url":"http://127.0.0.1:9/hook","events":["shipment.created"],"maxInFlight":1e1}`).text("id")
		if got := r.do(http.MethodGet, "/v1/webhooks/"+hook, "").object()["maxInFlight"]; got != 10.0 {
			t.Errorf("maxInFlight is %v", got)
		}
	})
}
