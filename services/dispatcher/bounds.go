package dispatcher

import (
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/admission"
)

// bounds exports the metrics of everything that is limited: how much is used, the limit, and how
// many wait for more.
type bounds struct {
	d                  *Dispatcher
	used, most, waits  *prometheus.Desc
	memory, memoryMost *prometheus.Desc
	memoryWaits        *prometheus.Desc
}

func newBounds(d *Dispatcher) *bounds {
	what, share := []string{"what"}, []string{"share"}
	return &bounds{
		d: d,
		used: prometheus.NewDesc("waybill_bounded",
			"How many there are of everything that is limited in number: deliveries of fast webhooks and of wide events in flight, queued deliveries, attempts, hold queues that are drained, publications to streams.", what, nil),
		most:        prometheus.NewDesc("waybill_bounded_limit", "How many there may be now.", what, nil),
		waits:       prometheus.NewDesc("waybill_bounded_waiting", "How many wait for it.", what, nil),
		memory:      prometheus.NewDesc("waybill_dispatch_memory_bytes", "Memory that deliveries in flight take, by share.", share, nil),
		memoryMost:  prometheus.NewDesc("waybill_dispatch_memory_limit_bytes", "Memory that they may take, by share.", share, nil),
		memoryWaits: prometheus.NewDesc("waybill_dispatch_memory_waiting", "How many wait for memory before they take more from the bus, by share.", share, nil),
	}
}

// Describe implements prometheus.Collector.
func (b *bounds) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{b.used, b.most, b.waits, b.memory, b.memoryMost, b.memoryWaits} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (b *bounds) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value int64, label string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), label)
	}
	bound := func(what string, used, most, waits int64) {
		gauge(b.used, used, what)
		gauge(b.most, most, what)
		gauge(b.waits, waits, what)
	}
	for _, of := range b.d.deliverer.Bounds() {
		bound(of.What, of.Used, of.Most, of.Waiting)
	}
	drained, most, waiting := b.d.queues.Drains()
	bound("drains", drained, most, waiting)
	for _, w := range b.d.options.Bus.Windows() {
		bound(w.Stream, int64(w.Out), int64(w.Limit), int64(w.Waiting))
	}
	room := func(share string, r *admission.Budget) {
		state := r.State()
		gauge(b.memory, state.Used, share)
		gauge(b.memoryMost, state.Limit, share)
		gauge(b.memoryWaits, int64(state.Waiting), share)
	}
	room("events", b.d.memory.events)
	room("turns", b.d.memory.turns)
	room("due", b.d.memory.due)
	room("drains", b.d.memory.drains)
	room("probes", b.d.memory.probes)
	room("records", b.d.memory.records)
	gauge(b.memory, b.d.emitter.Bytes(), "outcomes")
	gauge(b.memoryMost, b.d.memory.emitter, "outcomes")
	gauge(b.memoryWaits, 0, "outcomes")
}
