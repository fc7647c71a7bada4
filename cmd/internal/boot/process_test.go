package boot_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/cmd/internal/boot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// diary notes what parts did, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// part ends when it is told to, after taking some time for it, with err.
func (d *diary) part(name string, takes time.Duration, err error) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		<-time.After(takes)
		d.note(name)
		return err
	}
}

func TestPartsStopInReverseOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		failure := errors.New("flush failed")
		p := boot.NewProcess(quiet)
		p.Add("first", d.part("first", 0, nil))
		p.Add("second", d.part("second", time.Second, failure))
		p.Add("third", d.part("third", 5*time.Second, nil))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		err := p.Run(ctx)
		if diff := cmp.Diff([]string{"third", "second", "first"}, d.lines); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if !errors.Is(err, failure) || err.Error() != "second: flush failed" {
			t.Errorf("error: %v", err)
		}
	})
}

func TestPartThatFailsEndsTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		p := boot.NewProcess(quiet)
		p.Add("first", d.part("first", 0, nil))
		p.Add("broken", func(context.Context) error { return errors.New("disk full") })
		p.Add("third", d.part("third", 0, nil))
		if err := p.Run(t.Context()); err == nil || err.Error() != "broken: disk full" {
			t.Errorf("error: %v", err)
		}
		if diff := cmp.Diff([]string{"third", "first"}, d.lines); diff != "" {
			t.Errorf("others (-want +got):\n%s", diff)
		}
		p = boot.NewProcess(quiet)
		p.Add("short", func(context.Context) error { return nil })
		if err := p.Run(t.Context()); err == nil || err.Error() != "short ended by itself" {
			t.Errorf("error: %v", err)
		}
	})
}

func TestStopTakesThirtySecondsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := boot.NewProcess(quiet)
		p.AddCloser("first", func() error { return nil })
		p.Add("stuck", func(context.Context) error { <-release; return nil })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		started := time.Now()
		err := p.Run(ctx)
		if err == nil || err.Error() != "not stopped within 30s: first, stuck" {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(started); took != 30*time.Second {
			t.Errorf("it took %s", took)
		}
		close(release)
	})
}

func TestAbandonGivesBackInReverse(t *testing.T) {
	t.Parallel()
	var d diary
	p := boot.NewProcess(quiet)
	p.AddCloser("first", func() error { d.note("first"); return nil })
	p.AddCloser("second", func() error { d.note("second"); return errors.New("stuck") })
	cause := errors.New("no third")
	err := p.Abandon(cause)
	if diff := cmp.Diff([]string{"second", "first"}, d.lines); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if !errors.Is(err, cause) || err.Error() != "no third\nsecond: stuck" {
		t.Errorf("error: %v", err)
	}
}

func listen(t *testing.T, o boot.ServerOptions) *boot.Server {
	t.Helper()
	o.Name, o.Addr, o.Logger = "test", "127.0.0.1:0", quiet
	server, err := boot.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	_, err = boot.Listen(t.Context(), boot.ServerOptions{Name: "HTTP", Addr: addr, Setting: "--http or WAYBILL_HTTP_ADDR", Logger: quiet})
	want := "HTTP address " + addr + " is in use by another process: choose another address with --http or WAYBILL_HTTP_ADDR"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	_, err = boot.Listen(t.Context(), boot.ServerOptions{Name: "HTTP", Addr: "192.0.2.1:80", Setting: "--http", Logger: quiet})
	if want := "HTTP address 192.0.2.1:80 is not an address of this machine: choose another address with --http"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestServerFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	inside, release := make(chan struct{}), make(chan struct{})
	server := listen(t, boot.ServerOptions{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(inside)
		<-release
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	status := make(chan int, 1)
	go func() { status <- get(t, server.URL()) }()
	<-inside
	cancel()
	close(release)
	if got := <-status; got != http.StatusOK {
		t.Errorf("the request in flight got %d", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestServerEndsCallsThatWouldNotEnd(t *testing.T) {
	t.Parallel()
	inside := make(chan struct{})
	server := listen(t, boot.ServerOptions{EndCalls: true, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
	})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	status := make(chan int, 1)
	go func() { status <- get(t, server.URL()) }()
	<-inside
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-status
}

func get(t *testing.T, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return 0
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	server := listen(t, boot.ServerOptions{Handler: http.NotFoundHandler()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("a", 40<<10)+"\r\n\r\n")
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 431" {
		t.Errorf("answer to a header of 40 KiB: %q, %v", answer, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestJoinedErrorsAreLinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	boot.PrintError(&out, "waybill", errors.Join(errors.New("one"), errors.Join(errors.New("two"), errors.New("three"))))
	if want := "waybill: one\nwaybill: two\nwaybill: three\n"; out.String() != want {
		t.Errorf("printed %q", out.String())
	}
}
