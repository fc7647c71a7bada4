package builder

import "github.com/prometheus/client_golang/prometheus"

// The results of builds.
const (
	resultSuccess    = "success"
	resultError      = "error"      // the files or variables are faulty
	resultSuperseded = "superseded" // a later build was active first
	resultLost       = "lost"       // another gateway has it, or the deployment was deleted
	resultAbandoned  = "abandoned"  // the build was begun too often
)

type metrics struct {
	ended   *prometheus.CounterVec
	seconds prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_gateway_builds_total", Help: "Builds that this gateway has ended, by result: success, error, superseded, lost, abandoned.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_gateway_build_seconds", Help: "Duration of builds, from the claim to the end.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}),
	}
	r.MustRegister(m.ended, m.seconds)
	for _, result := range []string{resultSuccess, resultError, resultSuperseded, resultLost, resultAbandoned} {
		m.ended.WithLabelValues(result)
	}
	return m
}
