package rollout_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/storetest"
)

// many is how many deployments an account may have.
const many = 10_000

// crowd adds so many deployments, all with one build.
func (r *rig) crowd(n int) {
	r.t.Helper()
	first := deployed(r.t, "p0", static("/", "here"))
	build := first.Activate(r.t, r.db)
	writing, _ := r.db.Handles()
	tx, err := writing.BeginTx(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for i := 1; i < n; i++ {
		project := "p" + strconv.Itoa(i)
		name := domain.DeploymentName("default", project, "main")
		for _, statement := range []string{
			`INSERT INTO gateway_deployments (name, account, project, branch, environment_type, state, message, active_build, active_number, last_number, version, created_at, created_by, updated_at)
			 SELECT $1, account, $2, branch, environment_type, state, message, $1, 1, 1, version, created_at, created_by, updated_at FROM gateway_deployments WHERE name = $3 AND $4 <> ''`,
			`INSERT INTO gateway_builds (id, status_id, deployment, account, project, branch, number, source_id, environment_type, status, created_at, created_by, created_key, request_id, claims, owner, routes, steps, faults, log)
			 SELECT $1, $1, $1, account, $2, branch, 1, source_id, environment_type, status, created_at, created_by, created_key, request_id, claims, owner, routes, steps, faults, log FROM gateway_builds WHERE id = $4 AND $3 <> ''`,
		} {
			if _, err := tx.ExecContext(r.t.Context(), statement, name, project, first.Name(), build); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		r.t.Fatal(err)
	}
}

// BenchmarkManyDeployments has 10,000 deployments that are known: what finding one of them by
// its Host costs a request, what a table costs at the first one, and what they take in memory.
func BenchmarkManyDeployments(b *testing.B) {
	r := newRig(b, storetest.SQLite(), nil)
	r.crowd(many)
	before := heap()
	r.run()
	idle := heap() - before
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			r.Deployment("nobody")
		}
		b.ReportMetric(float64(idle)/many, "bytes/deployment")
	})
	b.Run("look-up", func(b *testing.B) {
		request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		hosts := make([]string, many)
		for i := range hosts {
			hosts[i] = domain.DeploymentName("default", "p"+strconv.Itoa(i), "main") + ".gateway.test:8082"
		}
		b.ReportAllocs()
		i, began := 0, processor(b)
		for b.Loop() {
			if request.Host = hosts[i%many]; r.find(request) == nil {
				b.Fatal("it is not there")
			}
			i++
		}
		b.ReportMetric(float64(processor(b)-began)/float64(b.N), "cpu-ns/op")
	})
	b.Run("first request", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			name := domain.DeploymentName("default", "p"+strconv.Itoa(i%many), "main")
			if w := r.get(name+".gateway.test", "/"); w.Code != http.StatusOK {
				b.Fatal(w.Code, w.Body)
			}
		}
	})
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// processor returns the time that this process has used, in ns: other work on the machine does
// not show in it.
func processor(b *testing.B) int64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// find does what the gateway does until it knows whose request it is.
func (r *rig) find(request *http.Request) http.Handler {
	r.found = nil
	r.finding.ServeHTTP(nil, request)
	return r.found
}
