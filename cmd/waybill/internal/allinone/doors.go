package allinone

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/telemetry"
	"waybill.dev/shared/requestid"
)

const (
	// doorsFile is the file in the data directory with the ports, so that they stay the same after a
	// restart.
	doorsFile = "deployment-ports.json"
	// mostDoors is how many deployments have a port at a time. A further one replaces the one whose
	// last request is the oldest.
	mostDoors = 64
)

// doors gives deployments their own ports on 127.0.0.1, for clients that can't look up names below
// localhost. A port is a separate origin: a deployment's pages can read neither the console nor another
// deployment. But browsers send cookies to all ports of a host, so the cookies of the console are
// removed from requests.
type doors struct {
	dir      *datadir.Dir
	settings settings.Settings
	log      *slog.Logger

	handler http.Handler // set before a door is served

	mu    sync.Mutex
	open  []*door     // the last one asked for is at the end
	serve func(*door) // nil: not serving yet
}

// door is the port of a deployment.
type door struct {
	Deployment string `json:"deployment"`
	Port       int    `json:"port"`

	server *boot.Server
	stop   context.CancelFunc
}

func newDoors(dir *datadir.Dir, s settings.Settings, log *slog.Logger) *doors {
	return &doors{dir: dir, settings: s, log: log}
}

// reopen opens the ports of the last run. If another process uses a port by now, its deployment gets
// another port when it is asked for.
func (d *doors) reopen(ctx context.Context) {
	text, err := os.ReadFile(d.dir.File(doorsFile))
	var kept []door
	if err != nil || json.Unmarshal(text, &kept) != nil {
		return // the first start, or a file that was edited: new ports are chosen
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range kept[max(0, len(kept)-mostDoors):] {
		if err := d.listen(ctx, one.Deployment, one.Port); err != nil {
			d.log.Warn("a deployment has another local address now", "deployment", one.Deployment, "error", err)
		}
	}
}

// url returns the local address of a deployment; empty: no port is available.
func (d *doors) url(deployment string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.open, func(o *door) bool { return o.Deployment == deployment })
	if i >= 0 {
		asked := d.open[i]
		d.open = append(slices.Delete(d.open, i, i+1), asked)
		return asked.server.URL()
	}
	if err := d.listen(context.Background(), deployment, 0); err != nil {
		d.log.Warn("a deployment has no local address", "deployment", deployment, "error", err)
		return ""
	}
	if len(d.open) > mostDoors {
		d.open[0].close()
		d.open = slices.Delete(d.open, 0, 1)
	}
	d.keep()
	return d.open[len(d.open)-1].server.URL()
}

// listen opens a port for a deployment; 0: a free one.
func (d *doors) listen(ctx context.Context, deployment string, port int) error {
	o := &door{Deployment: deployment, stop: func() {}}
	server, err := boot.Listen(ctx, boot.ServerOptions{
		Name: "Deployment " + deployment, Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Logger: d.log,
		Handler: d.enter(deployment), MaxConnections: d.settings.MaxConnections,
	})
	if err != nil {
		return err
	}
	o.server = server
	if u, err := url.Parse(server.URL()); err == nil {
		o.Port, _ = strconv.Atoi(u.Port()) // can't fail: it is a port
	}
	d.open = append(d.open, o)
	if d.serve != nil {
		d.serve(o)
	}
	return nil
}

func (o *door) close() {
	o.stop()
	_ = o.server.Close() // for a server that never ran
}

// drop removes a door that has stopped serving, so that its deployment gets another one.
func (d *doors) drop(o *door) {
	o.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(one *door) bool { return one == o })
}

// keep notes the ports for the next start.
func (d *doors) keep() {
	text, err := json.Marshal(d.open)
	if err == nil {
		err = d.dir.Put(doorsFile, bytes.NewReader(text))
	}
	if err != nil {
		d.log.Warn("the local addresses of deployments will be others after a restart", "error", err)
	}
}

// list returns the servers.
func (d *doors) list() []*boot.Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	servers := make([]*boot.Server, 0, len(d.open))
	for _, o := range d.open {
		servers = append(servers, o.server)
	}
	return servers
}

// run serves deployments, by a handler that finds them by their hosts.
func (d *doors) run(ctx context.Context, handler http.Handler) error {
	var running sync.WaitGroup
	serve := func(o *door) {
		ctx, stop := context.WithCancel(ctx)
		o.stop = stop
		running.Go(func() {
			if err := o.server.Run(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("a deployment has lost its local address", "deployment", o.Deployment, "error", err)
				d.drop(o)
			}
		})
	}
	d.handler = handler
	d.mu.Lock()
	d.serve = serve
	for _, o := range d.open {
		serve(o)
	}
	d.mu.Unlock()
	<-ctx.Done()
	d.mu.Lock()
	d.serve = func(*door) {} // doors opened from now on are closed at the end of the process
	d.mu.Unlock()
	running.Wait()
	return nil
}

// enter returns a handler that passes requests at a port to the deployment. It refuses a name that a web
// page could point to this machine: the page could read the answers of the deployment.
func (d *doors) enter(deployment string) http.Handler {
	host := deployment + "." + d.settings.GatewayDomain
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !telemetry.IsOurs(r.Host, nil) {
			id := requestid.New()
			w.Header().Set(requestid.Header, id)
			errName.Write(w, r, id)
			return
		}
		r.Host = host
		withoutOwnCookies(r.Header)
		d.handler.ServeHTTP(w, r)
	})
}

// withoutOwnCookies takes the cookies of the console off a request.
func withoutOwnCookies(header http.Header) {
	var rest []string
	for _, line := range header.Values("Cookie") {
		for cookie := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(cookie)), "=")
			if cookie != "" && !strings.HasPrefix(strings.TrimPrefix(name, "__host-"), "waybill") {
				rest = append(rest, strings.TrimSpace(cookie))
			}
		}
	}
	header.Del("Cookie")
	if len(rest) > 0 {
		header.Set("Cookie", strings.Join(rest, "; "))
	}
}
