package stages

import (
	"crypto/sha256"
	"math"
	"os"
	"path/filepath"
	"runtime/pprof"
	"testing"
	"time"
)

// The innermost package of Waybill's is the stage; without one, a library, the garbage collection or the runtime is.
func TestSum(t *testing.T) {
	t.Parallel()
	const text = `File: waybill
Type: cpu
-----------+-------------------------------------------------------
      30ms   runtime.memmove
             modernc.org/sqlite/lib._sqlite3VdbeExec
             waybill.dev/shared/store.(*tx).Exec
             waybill.dev/shared/store/pipeline.(*Store).Accept
             waybill.dev/services/api/internal/kernel/accept.(*Acceptor).commit
-----------+-------------------------------------------------------
      20ms   internal/runtime/syscall.Syscall6
             net.(*conn).Write
             net/http.(*conn).serve
-----------+-------------------------------------------------------
      10ms   runtime.scanobject
             runtime.gcBgMarkWorker.func2
-----------+-------------------------------------------------------
      10ms   runtime.futex
             runtime.schedule
             runtime.mcall
-----------+-------------------------------------------------------
      10ms   modernc.org/sqlite/lib._sqlite3WalCheckpoint
             waybill.dev/shared/store.(*Store).checkpoint
-----------+-------------------------------------------------------
       5ms   bufio.(*Writer).Write
             github.com/nats-io/nats%2ego.(*Conn).flusher
-----------+-------------------------------------------------------
    2.50ms   slices.SortFunc[go.shape.[]waybill.dev/shared/domain.ID,go.shape.int]
             waybill.dev/shared/bus.sorted[go.shape.struct { waybill.dev/shared/envelope.x int }]
`
	got, err := sum([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, ms := range map[string]float64{"shared/store/pipeline": 30, "net/http": 20, "garbage collection": 10, "runtime": 10, "shared/store": 10, "github.com/nats-io/nats.go": 5, "shared/bus": 2.5} {
		if math.Abs(got[name]-ms/87.5) > 1e-9 {
			t.Errorf("%s has %g, want %g", name, got[name], ms/87.5)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("there are also %v", got)
	}
	if _, err := sum([]byte("File: waybill\n")); err == nil {
		t.Error("a profile without samples is read without an error")
	}
}

// The tool's own output is read, from a profile of this process.
func TestOf(t *testing.T) { //nolint:paralleltest // a process has one profile at a time
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		if sha256.Sum256(make([]byte, 64<<10))[0] == 1 {
			t.Fatal("the sum of zeros begins with 1")
		}
	}
	pprof.StopCPUProfile()
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	shares, err := Of(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if shares["cmd/lab/bench/internal/stages"] < 0.3 {
		t.Errorf("this package, which was busy all the time, has %g of %v", shares["cmd/lab/bench/internal/stages"], shares)
	}
	if _, err := Of(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no profile is read without an error")
	}
}
