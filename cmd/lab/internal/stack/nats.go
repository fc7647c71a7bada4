package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// startNATS starts one nats-server with its defaults, or several as a cluster.
func (s *Stack) startNATS(ctx context.Context, dir string, servers int) error {
	if servers == 1 {
		address, err := s.site.port()
		if err != nil {
			return err
		}
		host, port, _ := strings.Cut(address, ":")
		if s.NATSMonitor, err = s.site.port(); err != nil {
			return err
		}
		_, monitor, _ := strings.Cut(s.NATSMonitor, ":")
		p := s.natsServer(dir, "nats-server", "-a", host, "-p", port, "-m", monitor, "-js", "-sd", filepath.Join(s.data, "nats"))
		p.ready = answersConnect(address)
		s.NATS, s.NATSURL = []*Process{p}, "nats://"+address
		return p.Start(ctx)
	}
	routes := make([]string, servers)
	for i := range routes {
		address, err := s.site.port()
		if err != nil {
			return err
		}
		routes[i] = address
	}
	var urls []string
	for i := range servers {
		p, url, err := s.clusterServer(dir, fmt.Sprintf("nats-%d", i+1), routes[i], routes)
		if err != nil {
			return err
		}
		s.NATS, urls = append(s.NATS, p), append(urls, url)
	}
	s.NATSURL = strings.Join(urls, ",")
	return startAll(ctx, s.NATS)
}

// clusterServer prepares one server of a cluster, whose name is that of its process. It
// is ready when its streams and consumers have all that their leaders have.
func (s *Stack) clusterServer(dir, name, route string, routes []string) (p *Process, url string, err error) {
	address, err := s.site.port()
	if err != nil {
		return nil, "", err
	}
	monitor, err := s.site.port()
	if err != nil {
		return nil, "", err
	}
	text := fmt.Sprintf(`server_name: %s
listen: %q
http: %q
jetstream { store_dir: %q, sync_interval: always }
cluster { name: waybill, listen: %q, routes: ["nats://%s"] }
`, name, address, monitor, filepath.Join(s.data, name), route, strings.Join(routes, `", "nats://`))
	file := filepath.Join(dir, name+".conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", fmt.Errorf("write the configuration of %s: %w", name, err)
	}
	p = s.natsServer(dir, name, "-c", file)
	p.ready = answers(s.site.http, monitor, "/healthz")
	return p, "nats://" + address, nil
}

// startShippedNATS starts a nats-server with the shipped configuration, and returns where each
// of its users connects.
func (s *Stack) startShippedNATS(ctx context.Context, dir string) (users func(name string) string, err error) {
	address, err := s.site.port()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"nats.conf", "publishers.conf"} {
		text, err := os.ReadFile(filepath.Join(s.site.module, "..", "deploy", "nats", name))
		if err != nil {
			return nil, fmt.Errorf("read the shipped configuration: %w", err)
		}
		here := strings.NewReplacer(`"0.0.0.0:4222"`, `"`+address+`"`, `http: "0.0.0.0:8222"`, "", `"/data"`, `"`+filepath.Join(s.data, "nats")+`"`)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(here.Replace(string(text))), 0o600); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	p := s.natsServer(dir, "nats-server", "-c", filepath.Join(dir, "nats.conf"))
	password := func(user string) string { return "k" + user + s.Key[:8] }
	for _, user := range []string{"api", "dispatcher", "gateway", "publisher"} {
		p.env = append(p.env, "NATS_"+strings.ToUpper(user)+"_PASSWORD="+password(user))
	}
	p.ready = answersConnect(address)
	users = func(user string) string { return "nats://" + user + ":" + password(user) + "@" + address }
	s.NATS, s.NATSURL = []*Process{p}, users("publisher")
	return users, p.Start(ctx)
}

func (s *Stack) natsServer(dir, name string, args ...string) *Process {
	return &Process{
		Name: name, path: s.site.binary("nats-server"), args: args, env: bareEnvironment(),
		log: filepath.Join(dir, name+".log"),
	}
}
