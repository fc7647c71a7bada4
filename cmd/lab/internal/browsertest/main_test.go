package browsertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
)

var (
	chromium = flag.String("chromium", "", "the browser's program; empty: nothing is run")
	axePath  = flag.String("axe", "", "axe.min.js of axe-core")
	folder   = flag.String("dir", "", "where the programs are built and run; empty: a folder that is thrown away")
	pictures = flag.String("pictures", "", "the folder for the pictures of the documentation; empty: one that is thrown away")
)

// patience is how long something may take that is due at once.
const patience = 30 * time.Second

// world is what all tests share: one Waybill, one browser, one server of receivers.
type world struct {
	site  *stack.Site
	stack *stack.Stack
	api   *stack.Client
	sink  *sink.Sink
	// browser is the context of the browser, in which each test opens tabs of its own.
	browser context.Context
	axe     string
}

// shared is handed to the tests by TestMain.
var shared *world

func TestMain(m *testing.M) {
	flag.Parse()
	if *chromium == "" {
		fmt.Fprintln(os.Stderr, "NOT RUN: the console in a real browser (make browser)")
		os.Exit(0)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir := *folder
	if dir == "" {
		if dir, err = os.MkdirTemp("", "waybill-browser-"); err != nil {
			return 0, fmt.Errorf("make a folder: %w", err)
		}
		defer os.RemoveAll(dir)
	}
	w, end, err := open(dir)
	if err != nil {
		return 0, err
	}
	shared = w
	code = m.Run()
	if err := w.stack.Died(); err != nil {
		code = 1
		fmt.Fprintln(os.Stderr, err)
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, w.stack.Logs())
	}
	return code, end()
}

// open starts what is shared.
func open(dir string) (*world, func() error, error) {
	ctx := context.Background()
	axe, err := os.ReadFile(*axePath)
	if err != nil {
		return nil, nil, fmt.Errorf("read axe-core: %w", err)
	}
	site, err := stack.NewSite(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	routes, err := filepath.Abs("../../../../config") // its pages of routes and of the MCP server show something, too
	if err != nil {
		return nil, nil, fmt.Errorf("find the shipped routes: %w", err)
	}
	st, err := site.AllInOne(ctx, stack.Options{Routes: routes})
	if err != nil {
		return nil, nil, err
	}
	receivers, err := sink.New()
	if err != nil {
		return nil, nil, err
	}
	browser, closeBrowser := startBrowser(ctx)
	if err := chromedp.Do(browser); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", *chromium, err)
	}
	w := &world{site: site, stack: st, api: st.Client(), sink: receivers, browser: browser, axe: string(axe)}
	return w, func() error {
		closeBrowser()
		w.api.Close()
		err := st.Close()
		receivers.Close()
		return err
	}, nil
}

// startBrowser starts Chromium without a window and with a profile that it throws away. Its sandbox
// needs rights that containers do not give, and it opens nothing but our own pages.
func startBrowser(ctx context.Context) (context.Context, context.CancelFunc) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(*chromium), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en-US"), chromedp.Flag("font-render-hinting", "none"), chromedp.Env("TZ=UTC"),
	)
	allocator, closeAllocator := chromedp.NewExecAllocator(ctx, options...)
	browser, closeTab := chromedp.NewContext(allocator)
	return browser, func() {
		closeTab()
		closeAllocator()
	}
}
