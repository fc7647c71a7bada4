package meter_test

import (
	"math"
	"os"
	"os/exec"
	"testing"
	"time"

	"waybill.dev/cmd/lab/internal/meter"
)

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var h meter.Histogram
	for i := range 100_000 {
		h.Add(time.Duration(i+1) * 10 * time.Microsecond)
	}
	q := h.Quantiles()
	for name, c := range map[string]struct{ got, want float64 }{
		"p50": {q.P50, 500}, "p99": {q.P99, 990}, "p99.9": {q.P999, 999}, "most": {q.Most, 1000},
	} {
		if math.Abs(c.got-c.want) > c.want*0.005 {
			t.Errorf("%s is %g ms, want %g within half a percent", name, c.got, c.want)
		}
	}
	if q.Count != 100_000 {
		t.Errorf("counted %d, want 100000", q.Count)
	}
}

func TestQuantilesOfExtremes(t *testing.T) {
	t.Parallel()
	var h meter.Histogram
	if q := h.Quantiles(); q != (meter.Quantiles{}) {
		t.Errorf("an empty histogram tells %+v", q)
	}
	h.Add(-time.Second) // the clock was set between the two readings
	if q := h.Quantiles(); q.P50 != 0 || q.Count != 1 {
		t.Errorf("a negative duration is told as %+v", q)
	}
	h.Add(1000 * time.Hour)
	if q := h.Quantiles(); q.Most != 3.6e9 {
		t.Errorf("the most is %g ms, want 3.6e9", q.Most)
	}
}

// A group is a process with its children, those that have ended included.
func TestCPUCountsChildren(t *testing.T) {
	t.Parallel()
	// The outer shell waits for one that counts, then for its own input.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'; echo done; read x`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	groups := []meter.Group{{Name: "shell", Pid: cmd.Process.Pid}, {Name: "test", Pid: os.Getpid()}}
	used, err := meter.CPU(groups)
	if err != nil {
		t.Fatal(err)
	}
	if used["shell"] < 20*time.Millisecond {
		t.Errorf("a shell whose child counted to 400,000 used %s", used["shell"])
	}
	if used["test"] < used["shell"] {
		t.Errorf("the test used %s, which is less than its descendant's %s", used["test"], used["shell"])
	}
	sampler := meter.Watch(t.Context(), groups)
	memory, err := sampler.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if memory.Peak["shell"] < 100<<10 || memory.Sum < memory.Peak["test"] {
		t.Errorf("memory is %+v", memory)
	}
	_ = in.Close()
	_ = cmd.Wait()
	if _, err := meter.CPU(groups); err == nil {
		t.Error("a process that is gone is measured without an error")
	}
}
