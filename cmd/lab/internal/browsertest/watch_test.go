package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"waybill.dev/cmd/lab/internal/stack"
)

// watch collects what goes wrong in a tab: errors and warnings in the console, reports of the
// content security policy, scripts that throw, dialogs that open, and what is asked of others.
type watch struct {
	origin string

	mu     sync.Mutex
	faults []string
}

func (w *watch) add(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *watch) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.faults)
}

// start opens the tab and looks at what happens in it from then on.
func (w *watch) start(ctx context.Context) error {
	if err := chromedp.Listen(ctx, func(event any) { w.see(ctx, event) }); err != nil {
		return err
	}
	for _, enable := range []cdp.Command[cdp.Empty, cdp.Empty]{log.Enable, runtime.Enable} {
		if _, err := chromedp.Call(ctx, enable, cdp.Empty{}); err != nil {
			return err
		}
	}
	if _, err := chromedp.Call(ctx, page.Enable, page.EnableParams{}); err != nil {
		return err
	}
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	return err
}

func (w *watch) see(ctx context.Context, event any) {
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			w.add("%s %s: %s (%s)", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		thrown := ""
		if e.ExceptionDetails.Exception != nil {
			thrown = e.ExceptionDetails.Exception.Description
		}
		w.add("a script has thrown: %s %s", e.ExceptionDetails.Text, thrown)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			var text []string
			for _, arg := range e.Args {
				text = append(text, string(arg.Value)+arg.Description)
			}
			w.add("console.%s: %s", e.Type, strings.Join(text, " "))
		}
	case *page.EventJavascriptDialogOpening:
		w.add("a dialog has opened: %s", e.Message)
		go func() { // the page stands still until somebody answers
			_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	case *network.EventRequestWillBeSent:
		url := e.Request.URL
		if !strings.HasPrefix(url, w.origin+"/") && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "about:") && !strings.HasPrefix(url, "blob:") {
			w.add("a third party is asked: %s", url)
		}
	}
}

// What the other tests rely on: a page that does wrong is noticed.
func TestWatchSeesWrong(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"/throws": `<script nonce=n>throw new Error("thrown on purpose")</script>`,
		"/warns":  `<script nonce=n>console.error("said on purpose")</script>`,
		"/inline": `<script>document.title = "ran"</script>`,
		"/style":  `<p style="color: red">red</p>`,
		"/dialog": `<script nonce=n>setTimeout(() => alert("opened on purpose"))</script>`,
		"/third":  `<script nonce=n>fetch("http://127.0.0.1:1/third").catch(() => 0)</script>`,
		"/lost":   `<script nonce=n src="/not-there.js"></script>`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-n'; connect-src *")
		text, ok := pages[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><link rel=icon href=data:,><p>a page</p>" + text))
	}))
	t.Cleanup(server.Close)
	for path, want := range map[string]string{
		"/throws": "thrown on purpose", "/warns": "said on purpose", "/inline": "Content Security Policy", "/style": "Content Security Policy",
		"/dialog": "opened on purpose", "/third": "a third party is asked", "/lost": "404",
	} {
		b := bareTab(t, server.URL)
		b.do(chromedp.Navigate(server.URL + path))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := stack.Await(ctx, func() (bool, error) { return strings.Contains(strings.Join(b.watch.all(), "\n"), want), nil })
		cancel()
		if err != nil {
			t.Errorf("%s goes unnoticed: %q", path, b.watch.all())
		}
	}
}
