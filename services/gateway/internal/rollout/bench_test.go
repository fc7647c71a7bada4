package rollout_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/storetest"
)

// many is how many deployments an account may have.
const many = 10_000

// crowd adds so many deployments, all with one build.
func (r *rig) crowd(n int) {
	r.t.Helper()
	first := deployed(r.t, "p0", static("/", "here"))
	first.Activate(r.t, r.db)
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
			 SELECT $1, account, $2, branch, environment_type, state, message, $1, 1, 1, version, created_at, created_by, updated_at FROM gateway_deployments WHERE project = 'p0'`,
			`INSERT INTO gateway_builds (id, status_id, deployment, account, project, branch, number, source_id, environment_type, status, created_at, created_by, created_key, request_id, claims, owner, routes, steps, faults, log)
			 SELECT $1, $1, $1, account, $2, branch, 1, source_id, environment_type, status, created_at, created_by, created_key, request_id, claims, owner, routes, steps, faults, log FROM gateway_builds WHERE project = 'p0'`,
		} {
			if _, err := tx.ExecContext(r.t.Context(), statement, name, project); err != nil {
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
	began := time.Now()
	r.run()
	b.Logf("%d deployments were known after %s, and take %d KB", many, time.Since(began).Round(time.Millisecond), (heap()-before)>>10)
	b.Run("look-up", func(b *testing.B) {
		request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		hosts := make([]string, many)
		for i := range hosts {
			hosts[i] = domain.DeploymentName("default", "p"+strconv.Itoa(i), "main") + ".gateway.test:8082"
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if request.Host = hosts[i%many]; r.find(request) == nil {
				b.Fatal("it is not there")
			}
			i++
		}
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

// find does what the gateway does until it knows whose request it is.
func (r *rig) find(request *http.Request) http.Handler {
	r.found = nil
	r.finding.ServeHTTP(nil, request)
	return r.found
}
