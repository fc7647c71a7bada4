package rollout_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"waybill.dev/services/gateway/internal/rollout"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/storetest"
)

// account adds an account.
func (r *rig) account(id string) {
	r.t.Helper()
	writing, _ := r.db.Handles()
	if _, err := writing.ExecContext(r.t.Context(), "INSERT INTO accounts (id, name, created_at) VALUES ($1, $1, $2)", id, r.db.Moment(r.db.Now())); err != nil {
		r.t.Fatal(err)
	}
}

// of is a deployment of an account that answers with its project.
func of(t *testing.T, account, project string, more ...string) deploymentstest.Deployment {
	t.Helper()
	d := deployed(t, project, append(more, static("/", project))...)
	d.Account = account
	return d
}

// An account with more deployments than there is room for takes the room of its own, whoever asks for them, and
// each account gets its part as it comes.
func TestTablesOfOneAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.Tables = 6 }).run()
	all := map[string][]deploymentstest.Deployment{}
	for account, deployments := range map[string]int{"acme": 2, "late": 2, "many": 20} {
		r.account(account)
		for i := range deployments {
			d := of(t, account, account+strconv.Itoa(i))
			d.Activate(t, r.db)
			all[account] = append(all[account], d)
		}
	}
	r.update()
	ask := func(account string) (loaded int64) {
		t.Helper()
		before := r.tables.sources.Load()
		for _, d := range all[account] {
			wants(t, d.Project, r.get(at(d), "/"), http.StatusOK, d.Project)
		}
		return r.tables.sources.Load() - before
	}
	for _, step := range []struct {
		account string
		loads   int64
	}{{"acme", 2}, {"many", 20}, {"acme", 0}, {"late", 2}, {"many", 20}, {"late", 0}, {"acme", 0}} {
		if got := ask(step.account); got != step.loads {
			t.Errorf("%s: %d deployments were loaded, want %d", step.account, got, step.loads)
		}
	}
}

// An account keeps no other one out with deployments that answer slowly.
func TestBusyTablesOfOneAccount(t *testing.T) {
	t.Parallel()
	held, let := make(chan struct{}, 2), make(chan struct{})
	back := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		held <- struct{}{}
		<-let
	}))
	t.Cleanup(back.Close)
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.Tables = 2 }).run()
	r.account("acme")
	other := of(t, "acme", "other")
	other.Activate(t, r.db)
	slow := []deploymentstest.Deployment{deployed(t, "a", forward("/back", back.URL)), deployed(t, "b", forward("/back", back.URL))}
	for _, d := range slow {
		d.Activate(t, r.db)
	}
	r.update()
	answers := make(chan *httptest.ResponseRecorder)
	for _, d := range slow {
		go func() { answers <- r.get(at(d), "/back") }()
		<-held
	}
	wants(t, "beside two that answer", r.get(at(other), "/"), http.StatusOK, "other")
	close(let)
	for range slow {
		wants(t, "held", <-answers, http.StatusOK, "")
	}
}

// The callers of some accounts' deployments do not take the counts of another account's, though they
// have all the room that there is.
func TestCountsOfOneAccount(t *testing.T) {
	t.Parallel()
	const memory, share = 5 << 20, 5 << 20 / 10 / 256
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.TableMemory = memory }).run()
	call := func(d deploymentstest.Deployment, caller int) int {
		request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		request.Host, request.RemoteAddr = at(d), "10.0."+strconv.Itoa(caller/256)+"."+strconv.Itoa(caller%256)+":1000"
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, request)
		return w.Code
	}
	limited := func(account string) deploymentstest.Deployment {
		r.account(account)
		d := withPolicies(t, account, account, strings.Replace(onceAMinute, `"all"`, `"ip"`, 1), guarded("/", "limit"))
		d.Activate(t, r.db)
		return d
	}
	early, late := limited("early"), limited("late")
	var flooded []deploymentstest.Deployment
	for i := range 10 {
		flooded = append(flooded, limited("flooded"+strconv.Itoa(i)))
	}
	r.update()
	everyone := func(d deploymentstest.Deployment, want int) {
		t.Helper()
		for caller := range 20 {
			if got := call(d, caller); got != want {
				t.Fatalf("%s: caller %d got %d, want %d", d.Account, caller, got, want)
			}
		}
	}
	everyone(early, http.StatusOK)
	for _, d := range flooded {
		for caller := range share + 20 {
			call(d, caller)
		}
	}
	everyone(early, http.StatusTooManyRequests)
	everyone(late, http.StatusOK)
	everyone(late, http.StatusTooManyRequests)
}
