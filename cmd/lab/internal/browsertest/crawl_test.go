package browsertest

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// pages are those that a crawl from Home must come to, without what follows a question mark.
// One * stands for an id or a name.
func pages() []string {
	return []string{
		"/console", "/console/problems", "/console/settings", "/console/system", "/console/routes", "/console/audit", "/console/mcp",
		"/console/events", "/console/events/*", "/console/publish", "/console/shipments/*",
		"/console/deliveries", "/console/deliveries/*", "/console/deliveries/send-again", "/console/jobs", "/console/jobs/*",
		"/console/webhooks", "/console/webhooks/new", "/console/webhooks/*", "/console/webhooks/*/deliveries", "/console/webhooks/*/feed", "/console/webhooks/*/cursors/warehouse/delete", "/console/webhooks/*/settings",
		"/console/signing-keys", "/console/signing-keys/rotate", "/console/webhooks/*/secret", "/console/webhooks/*/test", "/console/webhooks/*/code", "/console/webhooks/*/delete", "/console/webhooks/*/replay",
		"/console/catalogue", "/console/catalogue/*", "/console/rejected", "/console/rejected/message", "/console/alerts",
		"/console/deployments", "/console/new-deployment", "/console/deployments/*", "/console/deployments/*/traffic", "/console/deployments/*/requests",
		"/console/environments", "/console/environments/*", "/console/environments/*/*",
		"/console/domains", "/console/certificates", "/console/tunnels",
		"/console/metering", "/console/metering/*", "/console/metering/*/meters/*", "/console/metering/*/plans", "/console/metering/*/plans/*", "/console/metering/*/plans/*/archive", "/console/metering/*/plans/*/publish",
		"/console/metering/*/consumers", "/console/metering/*/consumers/*", "/console/metering/*/consumers/*/delete",
		"/console/access", "/console/access/buckets/*", "/console/access/buckets/*/consumers/*", "/console/access/buckets/*/consumers/*/new-key",
	}
}

const (
	// alike is how many pages of one kind are looked at.
	alike = 2
	// maxPages bounds the crawl.
	maxPages = 400
	// maxPage is what a page may weigh with its styles and scripts, compressed.
	maxPage = 60 << 10
)

// Every link of the console, over data that means ill: nothing runs, nothing breaks, nobody else is
// asked. Then one page of each kind is looked at with axe-core, weighed, and painted without a script.
//
//nolint:paralleltest // before all others, which take away what they have made
func TestEveryPage(t *testing.T) {
	b := newTab(t)
	h := makeHostile(t)
	b.signIn(b.stack.Key)
	c := &crawl{tab: b, kinds: make(map[string]int), first: make(map[string]string)}
	metering := "/console/metering/" + h.bucket
	c.run("/console", metering, metering+"/plans", metering+"/consumers", "/console/signing-keys/rotate", "/console/webhooks/"+h.webhook+"/feed", "/console/deliveries/"+h.delivery, "/console/shipments/"+url.PathEscape(h.shipment), "/console/events/"+h.event+"/webhooks/"+h.webhook)
	for _, page := range pages() {
		if _, ok := c.first[page]; !ok {
			t.Errorf("no link leads to %s", page)
		}
	}
	t.Logf("%d pages of %d kinds", c.visited, len(c.first))
	cookies := c.cookies()
	for _, kind := range slices.Sorted(maps.Keys(c.first)) {
		path := c.first[kind]
		c.accessible(kind, path)
		c.weigh(kind, path, cookies)
	}
	b.scripts(false)
	for _, kind := range slices.Sorted(maps.Keys(c.first)) {
		c.painted(kind, c.first[kind])
	}
}

// crawl goes to pages by their links.
type crawl struct {
	*tab

	queue   []string
	kinds   map[string]int    // how many pages of a kind were seen, by path and names of parameters
	first   map[string]string // a page of each kind, by path alone
	visited int
}

var (
	identifier = regexp.MustCompile(`^([a-z]+_.*|[0-9a-f-]{36}|[0-9A-Za-z]{22}|[0-9A-HJKMNP-TV-Z]{26}|.*%.*|hostile.*|shipment\..*|by-keyboard|reader|[0-9]+|~preview|desk|desk-.*|main|local)$`)
	turning    = regexp.MustCompile(`[\x{202a}-\x{202e}\x{2066}-\x{2069}]`)
)

// kind returns what a page is a page of: its path without ids, and the names of its parameters.
func kind(target *url.URL) (path, full string) {
	parts := strings.Split(target.EscapedPath(), "/")
	for i, part := range parts {
		if identifier.MatchString(part) {
			parts[i] = "*"
		}
	}
	path = strings.Join(parts, "/")
	return path, path + "?" + strings.Join(slices.Sorted(maps.Keys(target.Query())), "&")
}

func (c *crawl) run(from ...string) {
	c.Helper()
	c.queue = from
	for len(c.queue) > 0 && c.visited < maxPages {
		next := c.queue[0]
		c.queue = c.queue[1:]
		c.visit(next)
	}
}

// visit looks at a page and notes where it leads.
func (c *crawl) visit(path string) {
	c.Helper()
	target, err := url.Parse(path)
	if err != nil {
		c.Errorf("a link leads to %q: %v", path, err)
		return
	}
	short, full := kind(target)
	c.kinds[full]++
	if c.kinds[full] > alike {
		return
	}
	c.visited++
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	answer, err := chromedp.Run(ctx, chromedp.NavigateResponse(c.stack.URL+path))
	if err != nil || answer.Status != http.StatusOK {
		c.Errorf("%s: %v, %v", path, answer, err)
		return
	}
	if _, ok := c.first[short]; !ok && target.Path == must[string](c.tab, "decodeURIComponent(location.pathname)") {
		c.first[short] = path
	}
	if found := turning.FindString(must[string](c.tab, `document.title + document.body.innerText`)); found != "" {
		c.Errorf("%s: %+q is not made visible", path, found)
	}
	// Every link may be followed: what changes something is a form. Those of deployments lead to what
	// they serve, which learns nothing of the console.
	for _, link := range must[[]string](c.tab, `[...document.querySelectorAll("a[href]:not([rel~=external][rel~=noopener][rel~=noreferrer])")].map((a) => a.href)`) {
		to, err := url.Parse(link)
		switch {
		case err != nil || to.Scheme+"://"+to.Host != c.stack.URL:
			c.Errorf("%s links to %q", path, link)
		case to.Path == "/console" || strings.HasPrefix(to.Path, "/console/"):
			c.queue = append(c.queue, to.RequestURI())
		}
	}
}

// accessible runs axe-core in light, dark and in a narrow window.
func (c *crawl) accessible(kind, path string) {
	c.Helper()
	c.open(path)
	if _, err := ask[chromedp.Void](c.tab, c.axe); err != nil {
		c.Fatalf("load axe-core: %v", err)
	}
	for _, look := range []struct {
		scheme string
		width  int64
		rules  string
	}{{"light", wide, `{}`}, {"dark", wide, `{runOnly: ["color-contrast", "link-in-text-block"]}`}, {"light", narrow, `{}`}} {
		c.colours(look.scheme)
		c.size(look.width)
		for _, found := range must[[]string](c.tab, `axe.run(document, `+look.rules+`).then((r) => r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message || "")).join(" | ")))`) {
			c.Errorf("axe-core on %s (%s), %s, %d px: %s", kind, path, look.scheme, look.width, found)
		}
		if over := must[int64](c.tab, `document.documentElement.scrollWidth`) - look.width; over > 0 {
			c.Errorf("%s (%s) is %d px wider than a window of %d px", kind, path, over, look.width)
		}
	}
	for _, width := range []int64{1440, 1200, 1024, narrow} {
		c.size(width)
		for _, faults := range []string{listFaults, placeFaults} {
			for _, found := range must[[]string](c.tab, faults) {
				c.Errorf("%s (%s), %d px: %s", kind, path, width, found)
			}
		}
	}
	c.colours("light")
	c.size(wide)
}

// listFaults finds rows of lists that are more than a line of 36 px, tables that must be moved sideways, headings that are
// not above their columns, badges, times, numbers and buttons that are cut, and words of up to 24 letters that are broken.
const listFaults = columnFaults + `[...document.querySelectorAll("table.list")].filter((table) => table.checkVisibility()).flatMap((table) => {
	const faults = [], over = table.parentElement.scrollWidth - table.parentElement.clientWidth;
	if (over > 0) faults.push("a table is " + over + " px too wide: " + table.innerText.slice(0, 200));
	faults.push(...columnFaults(table));
	for (const cell of table.querySelectorAll("td")) if (cell.checkVisibility()) {
		const end = cell.getBoundingClientRect().right + 1, part = [...cell.querySelectorAll(".badge, wb-time, .counts, .usage, .button")].find((part) => part.getBoundingClientRect().right > end);
		if (part) faults.push("it is cut: " + part.innerText);
		else if (cell.matches(".fit, .num") && cell.scrollWidth > cell.clientWidth + 1) faults.push("it is cut: " + cell.innerText);
	}
	if (!table.matches(".wraps")) {
		const tall = [...table.tBodies].flatMap((body) => [...body.rows]).filter((row) => row.getBoundingClientRect().height > 36);
		if (tall[0]) faults.push("a row of " + tall[0].getBoundingClientRect().height + " px: " + tall[0].innerText);
	}
	const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[\p{L}\p{N}_]+/gu)) {
		const at = document.createRange();
		at.setStart(texts.currentNode, word.index);
		at.setEnd(texts.currentNode, word.index + word[0].length);
		if (word[0].length <= 24 && new Set([...at.getClientRects()].map((box) => Math.round(box.top))).size > 1) faults.push("a broken word: " + word[0]);
	}
	return faults.slice(0, 4);
})`

// columnFaults finds the headings of a table that are not above their columns.
const columnFaults = `var columnFaults = (table) => {
	const head = table.tHead?.rows[0], row = [...table.tBodies].flatMap((body) => [...body.rows]).find((row) => row.cells.length === head?.cells.length);
	if (!row || getComputedStyle(row).display !== "table-row") return [];
	return [...row.cells].filter((cell) => cell.checkVisibility()).map((cell) => [head.cells[cell.cellIndex], cell.getBoundingClientRect()]).filter(([heading, under]) => {
		const over = heading.getBoundingClientRect();
		return Math.abs(over.left - under.left) > 1 || Math.abs(over.right - under.right) > 1;
	}).map(([heading]) => "a heading is not above its column: " + heading.innerText);
};
`

// placeFaults finds ids that are on more than a line, fields of a filter that differ in height, and, in a wide window, those
// that are on more than a line.
const placeFaults = `(() => {
	const faults = [...document.querySelectorAll("main .id code")].filter((id) => id.checkVisibility() && id.getBoundingClientRect().height > 24).map((id) => "an id on several lines: " + id.innerText);
	for (const form of document.querySelectorAll("main form.filters")) {
		const fields = [...form.querySelectorAll(":scope > .field :is(input, select)")].filter((field) => field.checkVisibility()).map((field) => field.getBoundingClientRect());
		if (new Set(fields.map((box) => Math.round(box.height))).size > 1) faults.push("fields of several heights: " + form.innerText);
		if (innerWidth >= 1440 && new Set(fields.map((box) => Math.round(box.top))).size > 1) faults.push("a filter of several lines: " + form.innerText);
	}
	return faults;
})()`

var asset = regexp.MustCompile(`(?:src|href)="(/console/assets/[^"]+)"`)

// weigh adds up what a browser without a cache gets.
func (c *crawl) weigh(kind, path string, cookies []*http.Cookie) {
	c.Helper()
	page := c.get(path, cookies)
	total := packed(page)
	seen := make(map[string]bool)
	for _, match := range asset.FindAllSubmatch(page, -1) {
		if name := string(match[1]); !seen[name] {
			seen[name] = true
			total += packed(c.get(name, cookies))
		}
	}
	if len(seen) < 4 {
		c.Errorf("%s names only %d files: they were not weighed", kind, len(seen))
	}
	if total > maxPage {
		c.Errorf("%s (%s) weighs %d bytes with its files, more than %d", kind, path, total, maxPage)
	}
}

func (c *crawl) get(path string, cookies []*http.Cookie) []byte {
	c.Helper()
	request, err := http.NewRequestWithContext(c.Context(), http.MethodGet, c.stack.URL+path, http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	for _, cookie := range cookies {
		request.AddCookie(cookie)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		c.Fatalf("get %s: %d, %v", path, answer.StatusCode, err)
	}
	return body
}

func packed(content []byte) int {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content)
	_ = w.Close()
	return b.Len()
}

func (c *crawl) cookies() []*http.Cookie {
	c.Helper()
	var list []*http.Cookie
	found, err := chromedp.Call(c.ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{c.stack.URL + "/console"}})
	if err != nil || len(found.Cookies) == 0 {
		c.Fatalf("read the cookies: %v", err)
	}
	for _, cookie := range found.Cookies {
		list = append(list, &http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
	return list
}

// painted checks that a page is there before any script.
func (c *crawl) painted(kind, path string) {
	c.Helper()
	c.open(path)
	c.await(`performance.getEntriesByName("first-contentful-paint").length > 0`)
	if text := c.text(); len(text) < 40 {
		c.Errorf("%s shows nothing without JavaScript: %q", kind, text)
	}
}
