package telemetry

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a registry with the metrics of the Go runtime, of the process, and of the
// build.
func NewRegistry(version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "waybill_build_info", Help: "1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build,
	)
	return registry
}

// OpsHandler serves /metrics and /debug/pprof/ to requests whose host is an IP
// address, a name without a dot (localhost, or the name of a container) or one of names.
// Any other name gets 421: a web page may have pointed its own name here.
func OpsHandler(registry *prometheus.Registry, names ...string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(registry, promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", commandLine)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsOurs(r.Host, names) {
			http.Error(w, "this name is not served here", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// commandLine answers with the program's name only, because its arguments may be keys.
func commandLine(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	fmt.Fprint(w, filepath.Base(os.Args[0]))
}

// IsOurs reports whether a host is one that no web page can point here: an IP address, a name
// without a dot, a name below localhost, or one of names.
func IsOurs(hostport string, names []string) bool {
	host := strings.ToLower((&url.URL{Host: hostport}).Hostname())
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && (!strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || slices.Contains(names, host))
}
