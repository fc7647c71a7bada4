package fanout

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// roomInterval is how often the size of EVENTS is checked. A quarter of EVENTS is still free when
// events are first dropped.
const roomInterval = 2 * time.Second

// While no event comes or is finished, only each restedLooks-th check asks the bus.
const restedLooks = 8

type roomMetrics struct {
	bytes, most prometheus.Gauge
	dropped     prometheus.Counter
}

func newRoomMetrics(registerer prometheus.Registerer) *roomMetrics {
	m := &roomMetrics{
		bytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_bus_events_bytes", Help: "Bytes in the stream EVENTS."}),
		most: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_bus_events_max_bytes", Help: "Bytes that the stream EVENTS may hold before it refuses events. 0: no limit."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_bus_events_dropped_total", Help: "Events that were done and were dropped to make room in EVENTS."}),
	}
	registerer.MustRegister(m.bytes, m.most, m.dropped)
	return m
}

// makeRoom drops events that are done, so that they don't fill EVENTS. It runs until ctx is done.
func (f *Fanout) makeRoom(ctx context.Context) {
	ticker := time.NewTicker(roomInterval)
	defer ticker.Stop()
	failing := false
	moves := f.Moves()
	for quiet := 0; ; quiet++ {
		if now := f.Moves(); now != moves || failing {
			moves, quiet = now, 0
		}
		// Acknowledgements may be on their way at the first check after the last event.
		if quiet < 2 || quiet%restedLooks == 0 {
			failing = f.lookForRoom(ctx, failing)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// lookForRoom makes room once, and reports whether that failed. failing: the previous look failed.
func (f *Fanout) lookForRoom(ctx context.Context, failing bool) (failed bool) {
	asking, cancel := context.WithTimeout(ctx, 2*roomInterval)
	room, err := f.options.Bus.MakeRoom(asking)
	cancel()
	if err == nil {
		f.room.bytes.Set(float64(room.Bytes))
		f.room.most.Set(float64(room.MaxBytes))
	}
	f.room.dropped.Add(float64(room.Dropped))
	if err != nil && !failing && ctx.Err() == nil {
		f.options.Logger.Warn("no room can be made in the stream of events; trying again", "error", err)
	}
	return err != nil
}
