package browsertest

import "testing"

// foreign finds text of the viewer that is seen in a colour or a letter that is not one of the style sheet's, and parts with
// a background that is not.
const foreign = `(() => {
  const probe = document.body.appendChild(document.createElement("i")), known = new Set(["rgba(0, 0, 0, 0)"]);
  const root = getComputedStyle(document.documentElement);
  for (const name of ["bg", "panel", "raised", "hover", "text", "muted", "link", "accent", "accent-text", "good", "good-soft", "bad", "bad-soft", "warn", "warn-soft", "busy", "busy-soft"]) {
    probe.style.color = root.getPropertyValue("--" + name);
    known.add(getComputedStyle(probe).color);
  }
  probe.style.fontFamily = root.getPropertyValue("--mono");
  const letters = new Set([getComputedStyle(probe).fontFamily, getComputedStyle(document.body).fontFamily]);
  probe.remove();
  const faults = new Set();
  for (const e of document.querySelectorAll("#swagger-ui, #swagger-ui *:not(svg, svg *)")) {
    if (!e.checkVisibility()) continue;
    const style = getComputedStyle(e), name = e.localName + "." + [...e.classList].join(".");
    if (style.filter !== "none") faults.add(name + " has the filter " + style.filter);
    if (!known.has(style.backgroundColor)) faults.add(name + " has the background " + style.backgroundColor);
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    if (!known.has(style.color)) faults.add(name + " has the colour " + style.color);
    if (!letters.has(style.fontFamily)) faults.add(name + " has the letters " + style.fontFamily);
  }
  return [...faults].slice(0, 20);
})()`

// The headings of tables are above their columns.
func TestTablesOfDocs(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	for _, page := range []string{"/docs/receivers", "/docs/glossary", "/docs/problems", "/docs/asyncapi"} {
		b.open(page)
		for _, width := range []int64{wide, narrow} {
			b.size(width)
			for _, fault := range must[[]string](b, columnFaults+`[...document.querySelectorAll("table.list")].flatMap(columnFaults)`) {
				t.Errorf("%s, %d px: %s", page, width, fault)
			}
		}
	}
}

// The page of the HTTP API looks as all others do, light and dark, with operations open and while one is tried.
func TestViewerHasOurLook(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.open("/docs/http#/Webhooks/registerWebhook")
	b.await(`document.querySelector(".opblock.is-open .responses-table .microlight") !== null`)
	must[bool](b, `(document.querySelector(".opblock.is-open .try-out__btn").click(), true)`)
	b.await(`document.querySelector(".opblock.is-open .execute") !== null`)
	if _, err := ask[bool](b, b.axe+"; true"); err != nil {
		t.Fatalf("load axe-core: %v", err)
	}
	for _, scheme := range []string{"light", "dark"} {
		b.colours(scheme)
		for _, width := range []int64{wide, narrow} {
			b.size(width)
			for _, fault := range must[[]string](b, foreign) {
				t.Errorf("%s, %d px: %s", scheme, width, fault)
			}
			for _, found := range must[[]string](b, `axe.run("#swagger-ui", {runOnly: ["color-contrast"]}).then((r) => r.violations.flatMap((v) => v.nodes.slice(0, 5).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message || ""))))`) {
				t.Errorf("%s, %d px: %s", scheme, width, found)
			}
			if over := must[int64](b, `document.documentElement.scrollWidth`) - width; over > 0 {
				t.Errorf("the page is %d px wider than a window of %d px", over, width)
			}
		}
	}
}
