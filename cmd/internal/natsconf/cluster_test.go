package natsconf_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"waybill.dev/shared/bus/bustest"
)

const routePassword = "kRoute"

// readCluster reads the configuration of a cluster as each of its three servers does.
func readCluster(t *testing.T) []*server.Options {
	t.Helper()
	t.Setenv("NATS_ROUTE_PASSWORD", routePassword)
	ports := bustest.FreePorts(t, 3)
	for i, port := range ports {
		t.Setenv(fmt.Sprintf("NATS_ROUTE_%d", i+1), fmt.Sprintf("nats://route:%s@127.0.0.1:%d", routePassword, port))
	}
	var list []*server.Options
	for i, port := range ports {
		t.Setenv("NATS_SERVER_NAME", fmt.Sprintf("nats-%d", i+1))
		options := read(t, "cluster.conf")
		options.Cluster.Host, options.Cluster.Port = "127.0.0.1", port
		list = append(list, options)
	}
	return list
}

// Both configurations give the same users the same rights.
func TestClusterHasTheSameUsers(t *testing.T) {
	one, many := read(t, "nats.conf"), readCluster(t)[0]
	rights := func(o *server.Options) map[string]*server.Permissions {
		users := make(map[string]*server.Permissions)
		for _, u := range o.Users {
			users[u.Account.Name+"/"+u.Username+"/"+u.Password] = u.Permissions
		}
		return users
	}
	if diff := cmp.Diff(rights(one), rights(many)); diff != "" {
		t.Errorf("users differ (-nats.conf +cluster.conf):\n%s", diff)
	}
	if len(many.Nkeys) > 0 || many.NoAuthUser != "" || many.Username != "" || len(many.Users) != 5 {
		t.Error("somebody else may come in")
	}
	if !many.SyncAlways {
		t.Error("the servers of the cluster don't force what they acknowledge to the disk")
	}
}

func TestClusterDoesItsWork(t *testing.T) {
	var urls []string
	var servers []*server.Server
	for _, options := range readCluster(t) {
		s := start(t, options)
		servers = append(servers, s)
		urls = append(urls, s.Addr().String())
	}
	at := func(user, password string) string {
		var list []string
		for _, address := range urls {
			list = append(list, "nats://"+user+":"+password+"@"+address)
		}
		return strings.Join(list, ",")
	}
	await(t, "a leader of the cluster", func() bool {
		for _, s := range servers {
			if len(s.JetStreamClusterPeers()) == len(servers) {
				return true
			}
		}
		return false
	})
	api, dispatcher := joinAt(t, at("api", "kApi"), "api", 3), joinAt(t, at("dispatcher", "kDispatcher"), "dispatcher", 3)
	work(t, api, dispatcher)

	serve(t, api)
	conn, err := nats.Connect(at("publisher", "kPublisher"), nats.CustomInboxPrefix("_INBOX_publisher"))
	if err != nil {
		t.Fatalf("connect as publisher: %v", err)
	}
	t.Cleanup(conn.Close)
	publish(t, conn)
}

// Who doesn't know the password of the routes is no server of the cluster. The stranger is
// where none of the others looks: who dials an address takes the name that is said there
// for true until it is refused, and that moment says nothing about who is let in.
func TestClusterLetsNoStrangerIn(t *testing.T) {
	all := readCluster(t)
	var inside []*server.Server
	var logs []*refusalLog
	for _, options := range all[:2] {
		s := start(t, options)
		log := new(refusalLog)
		s.SetLoggerV2(log, false, false, false)
		inside, logs = append(inside, s), append(logs, log)
	}
	stranger := all[2]
	stranger.Cluster.Port = bustest.FreePorts(t, 1)[0]
	stranger.Cluster.Password = "kStranger"
	for _, route := range stranger.Routes {
		route.User = nil
	}
	start(t, stranger)
	await(t, "both to refuse the stranger, again and again", func() bool {
		return logs[0].count.Load() > 1 && logs[1].count.Load() > 1
	})
	await(t, "the two that know the password", func() bool { return inside[0].NumRoutes() > 0 && inside[1].NumRoutes() > 0 })
	for _, s := range inside {
		routes, err := s.Routez(nil)
		if err != nil {
			t.Fatalf("ask for routes: %v", err)
		}
		for _, r := range routes.Routes {
			if r.RemoteName == stranger.ServerName {
				t.Errorf("%s is among the routes of %s", r.RemoteName, s.Name())
			}
		}
	}
}

// refusalLog counts the connections that a server refused for want of the right password.
type refusalLog struct{ count atomic.Int64 }

func (l *refusalLog) Errorf(format string, v ...any) {
	if strings.Contains(fmt.Sprintf(format, v...), server.ErrAuthentication.Error()) {
		l.count.Add(1)
	}
}

func (*refusalLog) Noticef(string, ...any) {}
func (*refusalLog) Warnf(string, ...any)   {}
func (*refusalLog) Fatalf(string, ...any)  {}
func (*refusalLog) Debugf(string, ...any)  {}
func (*refusalLog) Tracef(string, ...any)  {}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		case <-ticker.C:
		}
	}
}
