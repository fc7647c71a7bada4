package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// profiles are those that are being taken of a rig's processes.
type profiles struct {
	files map[string]string // of processor time, by process
	group sync.WaitGroup
	mu    sync.Mutex
	err   error
}

// profile begins to take profiles of Waybill's processes for so long, unless there is no folder for them. They cost
// a few percent, so figures are better taken without.
func (r *rig) profile(ctx context.Context, dir, scenario string, long time.Duration) *profiles {
	p := &profiles{files: make(map[string]string)}
	if dir == "" {
		return p
	}
	seconds := int(math.Max(1, math.Round(long.Seconds())))
	for process, address := range r.stack.Ops {
		base := filepath.Join(dir, scenario+"-"+r.form+"-"+process)
		p.files[process] = base + ".cpu.pprof"
		p.group.Go(func() {
			err := errors.Join(
				download(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, seconds), base+".cpu.pprof"),
				download(ctx, fmt.Sprintf("http://%s/debug/pprof/allocs", address), base+".allocs.pprof"))
			p.mu.Lock()
			defer p.mu.Unlock()
			p.err = errors.Join(p.err, err)
		})
	}
	return p
}

// wait waits until all profiles are there.
func (p *profiles) wait() error {
	p.group.Wait()
	if p.err != nil {
		return fmt.Errorf("take profiles: %w", p.err)
	}
	return nil
}

func download(ctx context.Context, url, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, response.Body)
	return errors.Join(err, out.Close())
}
