package body_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/shared/body"
	"waybill.dev/shared/body/bodytest"
	"waybill.dev/shared/problem"
)

const limit = 1 << 20

// heard is what a handler has read of a body, in parts of 1000 bytes with a pause after each.
type heard struct {
	bytes int
	err   error // with which reading ended
	told  error // what Stop has told
}

// reading serves bodies to be passed on, and tells what it has heard.
func reading(memory *body.Memory, pause time.Duration, told chan<- heard) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease := memory.Lease()
		defer lease.Release()
		s, err := lease.Stream(w, r, limit, 0)
		if err != nil {
			told <- heard{told: err}
			answer(w, err)
			return
		}
		var h heard
		for part := make([]byte, 1000); h.err == nil; <-time.After(pause) {
			var n int
			n, h.err = s.Read(part)
			h.bytes += n
		}
		h.told = s.Stop()
		told <- h
		if !s.Complete() {
			w.Header().Set("Connection", "close")
		}
		answer(w, h.told)
	})
}

func answer(w http.ResponseWriter, err error) {
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		w.WriteHeader(p.Status())
		return
	}
	_, _ = io.WriteString(w, "good")
}

// Only the time in which the sender is waited for counts for its pace.
func TestStreamsAtTheirPace(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		size, perSecond int
		pause           time.Duration
		status          int
	}{
		"40 KB at 4 KB/s":                       {40_000, 4_096, 0, 200},
		"280 KB at 5 KB/s":                      {280_000, 5_000, 0, 200},
		"100 bytes a second":                    {40_000, 100, 0, 408},
		"320 KB at 5 KB/s":                      {320_000, 5_000, 0, 408},
		"20 KB to one who takes 3 s a KB":       {20_000, 100_000, 3 * time.Second, 200},
		"as many as there may be, and not more": {limit, 1 << 20, 0, 200},
		"too many":                              {limit + 1, 1 << 20, 0, 413},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				told := make(chan heard, 1)
				s := bodytest.StartServer(t, reading(nil, row.pause, told))()
				s.Head("/", row.size)
				go s.Send(strings.Repeat("x", row.size), row.perSecond)
				response, _ := s.Read()
				h := <-told
				if response.StatusCode != row.status {
					t.Errorf("status %d, want %d; %d bytes, then %v", response.StatusCode, row.status, h.bytes, h.err)
				}
				if whole := h.err == io.EOF; whole != (row.status == 200) { //nolint:errorlint // readers return it bare
					t.Errorf("reading ended with %v", h.err)
				}
				if response.Close == (row.status == 200) {
					t.Errorf("the connection is closed: %t", response.Close)
				}
			})
		})
	}
}

// A body whose length nobody has told is cut at the limit, with an error.
func TestStreamsWithoutALength(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{limit: 200, limit + 1: 413} {
		synctest.Test(t, func(t *testing.T) {
			told := make(chan heard, 1)
			s := bodytest.StartServer(t, reading(nil, 0, told))()
			s.Head("/", -1)
			go s.Send(strconv.FormatInt(int64(size), 16)+"\r\n"+strings.Repeat("x", size)+"\r\n0\r\n\r\n", 1<<20)
			response, _ := s.Read()
			if h := <-told; h.bytes > limit {
				t.Errorf("%d bytes were read", h.bytes)
			}
			if response.StatusCode != want {
				t.Errorf("%d bytes: status %d, want %d", size, response.StatusCode, want)
			}
		})
	}
}

// Who stops a body ends the read that waits for the sender, which is not at fault.
func TestStoppedStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var read error
		s := bodytest.StartServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			stream, err := (*body.Lease)(nil).Stream(w, r, limit, 0)
			if err != nil {
				t.Error(err)
				return
			}
			ended := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, stream)
				ended <- err
			}()
			synctest.Wait() // the sender is waited for
			begun := time.Now()
			if told := stream.Stop(); told != nil {
				t.Errorf("the sender is at fault: %v", told)
			}
			read = <-ended
			if took := time.Since(begun); took != 0 {
				t.Errorf("that took %s", took)
			}
			if n, err := stream.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF { //nolint:errorlint // readers return it bare
				t.Errorf("after that: %d bytes, %v", n, err)
			}
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "enough")
		}))()
		s.Head("/", 100_000)
		s.Send("some", 1000)
		if _, text := s.Read(); text != "enough" {
			t.Errorf("answer %q", text)
		}
		if read == nil {
			t.Error("the reader takes the body for whole")
		}
	})
}

// A body that is passed on takes the same memory, however long it is.
func TestMemoryOfStreams(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int{16 << 10: 503, 32 << 10: 200} {
		synctest.Test(t, func(t *testing.T) {
			told := make(chan heard, 1)
			s := bodytest.StartServer(t, reading(body.NewMemory(size, prometheus.NewRegistry()), 0, told))()
			s.Head("/", 500_000)
			go s.Send(string(bytes.Repeat([]byte{'x'}, 500_000)), 1<<20)
			if response, _ := s.Read(); response.StatusCode != want {
				t.Errorf("with %d bytes: status %d, want %d", size, response.StatusCode, want)
			}
		})
	}
}

// After a body that was refused the connection ends, however slowly its sender goes on.
func TestRefusedSendersAreLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bodytest.StartServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := (*body.Lease)(nil).Read(w, r, limit)
			answer(w, err)
		}))()
		s.Head("/", 100_000)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			s.Send(strings.Repeat("x", 100_000), 100) // 1000 s
		}()
		if response, _ := s.Read(); response.StatusCode != http.StatusRequestTimeout {
			t.Errorf("status %d", response.StatusCode)
		}
		begun := time.Now()
		<-sent
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the sender was listened to for %s", took)
		}
	})
}
