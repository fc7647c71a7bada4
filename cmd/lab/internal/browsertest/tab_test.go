package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"waybill.dev/cmd/lab/internal/stack"
)

// tab is a tab in a profile of its own, so that nobody is signed in. What goes wrong in it fails
// the test, whatever else is looked at.
type tab struct {
	*testing.T
	*world

	ctx   context.Context
	watch *watch
}

// Widths at which pages are looked at.
const (
	wide   = 1440
	narrow = 390
	height = 900
)

func newTab(t *testing.T) *tab {
	t.Helper()
	b := bareTab(t, shared.stack.URL)
	t.Cleanup(func() {
		for _, fault := range b.watch.all() {
			t.Errorf("the browser has something to complain about: %s", fault)
		}
	})
	return b
}

// bareTab is a tab whose faults are the caller's.
func bareTab(t *testing.T, origin string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(shared.browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{T: t, world: shared, ctx: ctx, watch: &watch{origin: origin}}
	if err := b.watch.start(ctx); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	b.size(wide)
	// Without this only the tab in front has the focus.
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatalf("the browser: %v\n%s", err, b.here())
	}
}

func (b *tab) size(width int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// colours has the browser prefer light or dark.
func (b *tab) colours(scheme string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	if err != nil {
		b.Fatalf("prefer %s: %v", scheme, err)
	}
}

// scripts switches JavaScript off or on.
func (b *tab) scripts(on bool) {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}); err != nil {
		b.Fatalf("switch JavaScript: %v", err)
	}
}

// open goes to a path, as by the address bar, and waits until the page is loaded.
func (b *tab) open(path string) {
	b.Helper()
	b.do(chromedp.Navigate(b.stack.URL + path))
}

// ask returns what an expression of JavaScript says. It works where a page may run no script, too.
func ask[T any](b *tab, expression string) (value T, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

func must[T any](b *tab, expression string) T {
	b.Helper()
	value, err := ask[T](b, expression)
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression of JavaScript is true.
func (b *tab) await(expression string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := stack.Await(ctx, func() (bool, error) {
		value, err := ask[bool](b, expression)
		return err == nil && value, nil // while a page loads there is none to ask
	})
	if err != nil {
		b.Fatalf("%s does not become true: %v\n%s", expression, err, b.here())
	}
}

// shows waits until the page's main part has a text.
func (b *tab) shows(text string) {
	b.Helper()
	b.await(`(document.getElementById("main")?.innerText || "").includes(` + quoted(text) + `)`)
}

// at waits until the page with this title is there.
func (b *tab) at(heading string) {
	b.Helper()
	b.await(`(document.querySelector("main h1")?.innerText || "").includes(` + quoted(heading) + `)`)
}

// here describes the page, for a test that has failed.
func (b *tab) here() string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + "\n" + (document.getElementById("main")?.innerText || document.body?.innerText || "").slice(0, 1500)`))
	if err != nil {
		return fmt.Sprintf("(the page can't be read: %v)", err)
	}
	return text
}

func (b *tab) text() string {
	b.Helper()
	return must[string](b, `document.getElementById("main").innerText`)
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

// press presses keys as they are, without going anywhere before.
func (b *tab) press(keys string, modifiers ...chromedp.Modifier) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...)))
}

// focused tells a person what has the focus, and whether they would see that.
type focused struct {
	Name, Place, Tag string
	Seen             bool
}

const readFocus = `(() => {
  const e = document.activeElement;
  if (!e || e === document.body) return { name: "", place: "", tag: "", seen: true };
  const label = e.getAttribute("aria-label") || [...(e.labels || [])].map((l) => l.innerText).join(" ") || e.innerText || e.title || e.name || "";
  const style = getComputedStyle(e), around = e.closest("tr, section, nav, form, header");
  return { name: label.trim().replace(/\s+/g, " "), place: around ? around.innerText.replace(/\s+/g, " ") : "", tag: e.localName,
    seen: e.localName === "main" || style.outlineStyle !== "none" || style.boxShadow !== "none" };
})()`

// maxTabs is how often Tab is pressed in search of something.
const maxTabs = 250

// reach presses Tab until what is called name has the focus, within something with the text place.
func (b *tab) reach(name string, place ...string) {
	b.Helper()
	var passed []string
	for range maxTabs {
		b.press(kb.Tab)
		f := must[focused](b, readFocus)
		passed = append(passed, f.Name)
		if !f.Seen {
			b.Errorf("nobody sees that %s %q has the focus\n%s", f.Tag, f.Name, must[string](b, "location.href"))
		}
		if !strings.HasPrefix(f.Name, name) {
			continue
		}
		if !slices.ContainsFunc(place, func(p string) bool { return !strings.Contains(f.Place, p) }) {
			return
		}
	}
	b.Fatalf("Tab does not reach %q in %q; it passes %q\n%s", name, place, passed[:min(len(passed), 80)], b.here())
}

// enter presses Enter on what is called name.
func (b *tab) enter(name string, place ...string) {
	b.Helper()
	b.reach(name, place...)
	b.press(kb.Enter)
}

// fill reaches a field and types a text in the place of what is there.
func (b *tab) fill(name, text string) {
	b.Helper()
	b.reach(name)
	if had := must[string](b, `document.activeElement.value`); had != "" {
		b.press(kb.End + strings.Repeat(kb.Backspace, len([]rune(had))))
	}
	b.press(text)
	if has := must[string](b, `document.activeElement.value`); has != text {
		b.Fatalf("%q was typed into %q, which now has %q", text, name, has)
	}
}

// signIn signs in with a key, by the keyboard.
func (b *tab) signIn(key string) {
	b.Helper()
	b.open("/console")
	b.at("Sign in")
	b.press(key) // the field has the focus
	b.press(kb.Enter)
	b.await(`document.documentElement.hasAttribute("data-signed") && document.readyState === "complete"`)
}
