package receiver_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"waybill.dev/cmd/internal/receiver"
)

// The list of paths says what a path will answer, whoever has asked for it: who told it, or
// the URL of a webhook, before and after its first callback.
func TestPageSaysWhatPathsAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.receiver.Found(map[string]receiver.Known{
		"/in/flaky": {Secrets: keys(t, secret), Queries: []string{"status=503&times=2"}},
		"/in/both":  {Secrets: keys(t, secret), Queries: []string{"", "delay=2s", "delay=2s", "status=none"}},
		"/in/plain": {Secrets: keys(t, secret), Queries: []string{"token=x"}},
	})
	r.tell(`{"path":"/in/told","status":500,"times":1}`)
	r.tell(`{"path":"/in/asked","secret":"` + secret + `"}`)
	r.callback("/in/asked?status=410", "evt_1", 1, secret)
	page := r.page("/")
	for path, want := range map[string]string{
		"/in/flaky": "answers 503, 2× for each event, then 200, as the URL asks ·",
		"/in/both":  "answers 200; 200 after 2s, as the URL asks ·",
		"/in/plain": "answers 200 ·",
		"/in/told":  "answers 500, 1× for each event, then 200 ·",
		"/in/asked": "answers 410, as the URL asks ·",
	} {
		if want = "<li><code>" + path + "</code><br>" + want; !strings.Contains(page, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	if t.Failed() {
		_, paths, _ := strings.Cut(page, `id="paths"`)
		t.Log(paths)
	}
}

// A secret that is known in two ways is one secret.
func TestSecretsAreCountedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.receiver.Found(map[string]receiver.Known{"/in/a": {Secrets: keys(t, secret, secret)}})
	r.tell(`{"path":"/in/a","secret":"` + secret + `"}`)
	r.tell(`{"path":"/in/a","secret":"` + secret + `"}`)
	r.callback("/in/a", "evt_1", 1, secret)
	if page := r.page("/"); !strings.Contains(page, "matches secret 1 of 1") {
		t.Error("one secret is counted more than once")
	}
	r.tell(`{"path":"/in/a","secret":"` + another + `"}`)
	if page := r.page("/"); !strings.Contains(page, "of 2") {
		t.Error("another secret is not counted")
	}
}

// The search works without a script: the page has what is found, and links that keep to it.
func TestSearch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, id := range map[string]string{"/in/one": "evt_first", "/in/two?status=503": "evt_second"} {
		// Without time and signature: what is searched for may be in these by chance.
		r.do(http.MethodPost, path, `{"type":"shipment.created"}`, http.Header{"Webhook-Id": {id}, "Waybill-Attempt": {"1"}})
	}
	for text, want := range map[string][]string{
		"EVT_FIRST": {"/in/one"}, "two": {"/in/two"}, "503": {"/in/two"}, "in/": {"/in/two", "/in/one"}, "shipment.created": {"/in/two", "/in/one"},
		"waybill-attempt": {"/in/two", "/in/one"}, "<b>nothing</b>": nil,
	} {
		page := r.page("/?q=" + url.QueryEscape(text))
		list, _, _ := strings.Cut(page, `<section class="teach panel">`)
		for _, path := range []string{"/in/one", "/in/two"} {
			listed := strings.Contains(list, "<small>"+path+"</small>")
			if wanted := strings.Contains(strings.Join(want, " "), path); listed != wanted {
				t.Errorf("%s: %s is found: %v", text, path, listed)
			}
		}
		if len(want) > 0 && !strings.Contains(strings.ToLower(list), strings.ToLower("&amp;q="+url.PathEscape(text)+`"`)) {
			t.Errorf("%s: a link forgets it:\n%s", text, list)
		}
		if strings.Contains(page, "<b>nothing") || len(want) == 0 && !strings.Contains(page, "Nothing is found") {
			t.Errorf("%s: what is searched for is not shown as text", text)
		}
	}
	if page := r.page("/?q=first&n=2"); !strings.Contains(page, "evt_first") {
		t.Error("what is not found is shown in full")
	}
}

// Characters that turn the direction of writing are made visible, wherever they came; times have their zone, and attempts
// say how long after the first one they came.
func TestPageMakesVisible(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for attempt := range 2 {
		r.do(http.MethodPost, "/in/%E2%80%AEone?q=%E2%80%AE", "{\"type\":\"\u202e\",\"data\":\"\u202e\"}", http.Header{"X-Note": {"\u202e"}, "Webhook-Id": {"evt_\u202e"}, "Waybill-Delivery-Id": {"dlv_1"}, "Waybill-Attempt": {strconv.Itoa(attempt + 1)}})
	}
	page := html.UnescapeString(r.page("/?q=" + url.QueryEscape("\u202e")))
	if shown := regexp.MustCompile(`(?s)data-text=.*?></wb-copy>|value="[^"]*"`).ReplaceAllString(page, ""); strings.Contains(shown, "\u202e") || !strings.Contains(shown, "\uFFFD") {
		t.Errorf("a character that turns the direction is in the page:\n%s", shown)
	}
	if !regexp.MustCompile(`<wb-time exact><time datetime="[^"]+Z">[0-9:.]{12} UTC<`).MatchString(page) || !regexp.MustCompile(`<small>200 \+\d+`).MatchString(page) {
		t.Errorf("times have no zone, or attempts do not say how long after the first they came:\n%s", page)
	}
}

// The page has the look of the console: its one style sheet, and no style or script of its own in
// the page. Whatever it names is there, for as long as anybody likes to keep it.
func TestPageHasTheLookOfTheConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.callback("/in/one", "evt_first", 1, secret)
	page := r.page("/")
	named := regexp.MustCompile(`(?:href|src)="(/-/assets/[^"]+)"`).FindAllStringSubmatch(page, -1)
	var sheets int
	for _, match := range named {
		status, header, text := r.do(http.MethodGet, match[1], "", nil)
		if status != http.StatusOK || text == "" || !strings.Contains(header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %v", match[1], status, header)
		}
		if strings.HasSuffix(match[1], ".css") {
			sheets++
		}
	}
	if sheets != 1 || len(named) != 4 {
		t.Errorf("the page names %v", named)
	}
	for _, never := range []string{"<style", " style=", "<script>", " onclick="} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %s in it", never)
		}
	}
}
