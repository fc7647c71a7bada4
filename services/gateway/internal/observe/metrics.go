package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/shared/store/traffic"
)

// metrics counts rows of the request log and batches. rowsDropped are among rowsNotKept.
type metrics struct {
	rowsKept, rowsNotKept, rowsDropped prometheus.Counter
	requestsUncounted, writeFailures   prometheus.Counter
}

func newMetrics(r prometheus.Registerer, lag func() float64) *metrics {
	logged := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waybill_gateway_request_logs_total", Help: "Requests by what became of their row in the log: kept; not_kept, which is above the rate or dropped; and dropped among them, because the database was away for too long.",
	}, []string{"result"})
	m := &metrics{
		rowsKept: logged.WithLabelValues("kept"), rowsNotKept: logged.WithLabelValues("not_kept"), rowsDropped: logged.WithLabelValues("dropped"),
		requestsUncounted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_gateway_traffic_lost_total", Help: "Requests that could not be counted, because the database was away for too long.",
		}),
		writeFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_gateway_traffic_write_failures_total", Help: "Batches of counts and rows that could not be written and were tried again.",
		}),
	}
	if r != nil {
		r.MustRegister(logged, m.requestsUncounted, m.writeFailures, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_gateway_traffic_lag_seconds", Help: "How long the oldest request has been waiting that is not in the counts of the database yet.",
		}, lag))
	}
	return m
}

// countWritten counts a batch that is in the database.
func (m *metrics) countWritten(b *traffic.Batch) {
	m.rowsKept.Add(float64(len(b.Rows)))
	for _, n := range b.NotKept {
		m.rowsNotKept.Add(float64(n))
	}
}
