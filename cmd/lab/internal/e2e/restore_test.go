package e2e_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
)

// scene is what a backup is made of: events that flow to a receiver that answers, to one that is
// down, to a webhook that is inactive, and into a feed.
type scene struct {
	w              *world
	up, down, held *sink.Endpoint
	hold, feed     client.Webhook

	mu       sync.Mutex
	accepted []string
	stop     func()
}

func newScene(w *world) *scene {
	s := &scene{w: w}
	s.up, _ = w.register("up", nil)
	tens := slices.Repeat([]float64{10}, 20)
	s.down, _ = w.register("down", schedule(tens...))
	s.down.Behave(answerWith(http.StatusInternalServerError))
	s.held, s.hold = w.register("held", nil)
	if err := w.api.SetActive(w.Context(), s.hold.ID, false); err != nil {
		w.Fatal(err)
	}
	var err error
	s.feed, err = w.api.Register(w.Context(), client.Webhook{Events: []domain.EventType{domain.ShipmentCreated}, Delivery: "pull"})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			e := w.event(domain.ShipmentCreated, "")
			if out, err := w.api.Publish(ctx, e.body()); err == nil && len(out) == 1 {
				s.mu.Lock()
				s.accepted = append(s.accepted, e.ID)
				s.mu.Unlock()
			}
		}
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	w.Cleanup(s.stop)
	return s
}

// soFar returns what was accepted until now.
func (s *scene) soFar() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.accepted)
}

// more waits until n more were accepted, and returns all.
func (s *scene) more(n int) []string {
	s.w.Helper()
	before := len(s.soFar())
	s.w.await("events are accepted", patience, func() bool { return len(s.soFar()) >= before+n })
	return s.soFar()
}

// complete fails the test unless a restored installation delivers all of ids to everybody.
func (s *scene) complete(restored *world, ids []string) {
	s.w.Helper()
	s.down.Behave(nil)
	if err := restored.api.SetActive(s.w.Context(), s.hold.ID, true); err != nil {
		s.w.Fatal(err)
	}
	for _, e := range []*sink.Endpoint{s.up, s.down, s.held} {
		restored.arrived(e, ids)
	}
	read := make(map[string]bool)
	query := url.Values{"limit": {"1000"}}
	follow := func(what string, ids []string) {
		s.w.Helper()
		restored.await(what, patience, func() bool {
			page, err := restored.api.Feed(s.w.Context(), s.feed.ID, query)
			if err != nil {
				s.w.Fatal(err)
			}
			for _, e := range page.Data {
				read[e.ID] = true
			}
			query.Set("after", page.Cursor)
			return !slices.ContainsFunc(ids, func(id string) bool { return !read[id] })
		})
	}
	follow("the feed has every event", ids)
	fresh := restored.publishAs("after", 5)
	restored.arrived(s.up, fresh)
	follow("the feed goes on", fresh)
}

// publishAs publishes events with ids of their own.
func (w *world) publishAs(prefix string, n int) []string {
	w.Helper()
	var ids []string
	for range n {
		e := w.event(domain.ShipmentCreated, "")
		e.ID = prefix + "_" + e.ID
		w.post(e)
		ids = append(ids, e.ID)
	}
	return ids
}

// kill ends all processes of a stack as a crash would.
func kill(t *testing.T, st *stack.Stack) {
	t.Helper()
	for _, p := range slices.Backward(st.Processes()) {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
}

// command runs the waybill command to its end.
func command(t *testing.T, site *stack.Site, env []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), site.Binary(), args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("waybill %v: %v\n%s", args, err, out)
	}
}

// What was accepted before a backup is delivered by what is made of it.
func TestRestore(t *testing.T) {
	t.Parallel()
	site, err := stack.NewSite(t.Context(), siteDir(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, restore := range map[string]func(*testing.T, *stack.Site){"sqlite": restoreSQLite, "postgres": restorePostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restore(t, site)
		})
	}
}

// restoreSQLite backs an all-in-one installation up while it runs.
func restoreSQLite(t *testing.T, site *stack.Site) {
	st, err := site.AllInOne(t.Context(), stack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(newWorld(t, st))
	ids := s.more(200)
	file, data := filepath.Join(t.TempDir(), "backup.tar"), t.TempDir()
	command(t, site, nil, "backup", file, "--data", filepath.Join(st.Data(), "waybill"))
	s.more(20)
	kill(t, st)
	s.stop()
	command(t, site, nil, "restore", file, "--data", filepath.Join(data, "waybill"))
	again, err := site.AllInOne(t.Context(), stack.Options{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	s.complete(newWorld(t, again), ids)
	t.Logf("%d events were accepted before the backup, %d in all", len(ids), len(s.soFar()))
}

// restorePostgres brings the database of the services to a point in time, on a bus that is empty.
func restorePostgres(t *testing.T, site *stack.Site) {
	// The server's user can't enter the folders of a test.
	root, err := os.MkdirTemp("", "waybill-pitr-") //nolint:usetesting // that folder is of its user alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	archive := filepath.Join(root, "archive")
	for path, mode := range map[string]os.FileMode{root: 0o755, archive: 0o777} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	cluster := startCluster(t, "", "archive_mode=on", "archive_command=cp %p "+archive+"/%f")
	st, err := site.Split(t.Context(), stack.Options{Postgres: cluster})
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(newWorld(t, st))
	s.more(50)
	copied := filepath.Join(root, "copy")
	if err := cluster.BaseBackup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	ids := s.more(100)
	point := time.Now().UTC()
	s.more(20)
	kill(t, st)
	s.stop()
	late := s.w.events.Load()
	ask(t, cluster.URL("postgres"), "SELECT pg_switch_wal()::text")
	if err := cluster.Halt(); err != nil { // the last of the log is archived then
		t.Fatal(err)
	}
	if err := pgtest.Recover(copied); err != nil {
		t.Fatal(err)
	}
	restored := startCluster(t, copied, "restore_command=cp "+archive+"/%f %p",
		"recovery_target_time="+point.Format("2006-01-02 15:04:05.999999+00"), "recovery_target_action=promote")
	s.w.await("the server is at the point in time", patience, func() bool {
		return ask(t, restored.URL("postgres"), "SELECT pg_is_in_recovery()::text") == "false"
	})
	database := restored.URL(strings.TrimPrefix(mustParse(t, st.DatabaseURL).Path, "/"))
	command(t, site, []string{"WAYBILL_DATABASE_URL=" + database}, "migrate", "restored")
	again, err := site.Split(t.Context(), stack.Options{Postgres: restored, DatabaseURL: database})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, again)
	w.events.Store(late) // later ids are others
	s.complete(w, ids)
	all := s.soFar()
	if known, err := w.api.HasEvent(t.Context(), all[len(all)-1]); err != nil || known {
		t.Errorf("an event from after the point in time is there: %v, %v", known, err)
	}
	// Its publisher sends it again, as it was. Receivers that had it before know it by its id.
	e := event{ID: all[len(all)-1], Type: domain.ShipmentCreated, Timestamp: "2026-11-16T13:04:11+01:00"}
	e.Data = `{"shipmentId":"shp_` + strings.TrimPrefix(e.ID, "evt_") + `"}`
	if out := w.submit(e.body()); len(out) != 1 || out[0].Duplicate {
		t.Errorf("publish again: %+v", out)
	}
	w.arrived(s.down, []string{e.ID})
	t.Logf("%d events were accepted before the point in time, %d in all", len(ids), len(all))
}

func startCluster(t *testing.T, dir string, settings ...string) *pgtest.Cluster {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), dir, append(settings, "fsync=off")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("stop Postgres: %v", err)
		}
	})
	return cluster
}

// ask returns the one text that a query answers with.
func ask(t *testing.T, address, query string) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), query).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
