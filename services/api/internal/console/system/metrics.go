package system

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// metrics are the metrics of the process at one moment, by their names.
type metrics map[string]*dto.MetricFamily

func gather(from prometheus.Gatherer) metrics {
	all := make(metrics)
	if from == nil {
		return all
	}
	families, _ := from.Gather() // partial results are used
	for _, f := range families {
		all[f.GetName()] = f
	}
	return all
}

// value returns the sum of the counters or gauges with these labels; ok is false when there are
// none.
func (m metrics) value(name string, labels ...string) (sum float64, ok bool) {
	for _, one := range m[name].GetMetric() {
		if has(one, labels) {
			sum += one.GetGauge().GetValue() + one.GetCounter().GetValue()
			ok = true
		}
	}
	return sum, ok
}

// quantile returns an upper bound for a share of a histogram's observations; ok is false when there
// are none.
func (m metrics) quantile(share float64, name string, labels ...string) (bound float64, ok bool) {
	for _, one := range m[name].GetMetric() {
		h := one.GetHistogram()
		if !has(one, labels) || h.GetSampleCount() == 0 {
			continue
		}
		wanted := uint64(math.Ceil(share * float64(h.GetSampleCount())))
		for _, b := range h.GetBucket() {
			if b.GetCumulativeCount() >= wanted {
				return b.GetUpperBound(), true
			}
		}
		return math.Inf(1), true
	}
	return 0, false
}

// has reports whether a metric has each of the labels, given as name, value, name, value.
func has(one *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		found := false
		for _, l := range one.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}
