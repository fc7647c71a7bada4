package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
)

// figures are what was measured while something was published and delivered.
type figures struct {
	Events     int64 `json:"events"`
	Deliveries int64 `json:"deliveries"`
	// Accepted and Delivered are rates a second: until the last answer, and from the first
	// arrival to the last. Ratio is the second one's to that of the bare loop.
	Accepted  float64 `json:"acceptedPerSecond"`
	Delivered float64 `json:"deliveredPerSecond"`
	Ratio     float64 `json:"ratioToBareLoop,omitempty"`
	// Publish is the time until an event's answer, Latency until its arrival, both in ms.
	Publish meter.Quantiles `json:"publishMs"`
	Latency meter.Quantiles `json:"latencyMs"`
	// CPU is in ms for 1000 deliveries, by process; Beside are publisher and receiver.
	CPU    map[string]float64 `json:"cpuMsPer1000"`
	CPUSum float64            `json:"cpuMsPer1000Sum"`
	Beside map[string]float64 `json:"besideCpuMsPer1000"`
	// Memory is the peak in MB, by process; the sum is what all had at the same time.
	Memory    map[string]float64 `json:"peakMb"`
	MemorySum float64            `json:"peakMbSum"`
	// Quiet is how long after the last arrival the bookkeeping went on.
	Quiet float64 `json:"secondsUntilQuiet"`

	Lost       int64 `json:"lost"`
	Repeated   int64 `json:"repeated"`
	Refused    int64 `json:"refused"`
	Unrecorded int64 `json:"unrecorded"` // arrivals that are not in the delivery log
	Checked    int64 `json:"signaturesChecked"`
}

// faults are what must not be, whatever the speed.
func (f *figures) faults(published load.Published, received load.Received) []string {
	var list []string
	for _, fault := range []struct {
		count int64
		what  string
	}{
		{f.Lost, "deliveries did not arrive"},
		{f.Repeated, "deliveries came again"},
		{f.Refused, "events were refused, the first with " + published.Fault},
		{f.Unrecorded, "deliveries are not in the delivery log"},
		{received.Faults, "callbacks were wrong, the first: " + received.FirstFault},
	} {
		if fault.count > 0 {
			list = append(list, fmt.Sprintf("%d %s", fault.count, fault.what))
		}
	}
	return list
}

// use notes what processes used for the deliveries.
func (f *figures) use(before, after map[string]time.Duration, memory meter.Memory) {
	f.CPU, f.Beside, f.Memory = make(map[string]float64), make(map[string]float64), make(map[string]float64)
	for name, used := range after {
		ms := float64((used - before[name]).Microseconds()) / float64(max(1, f.Deliveries))
		if slices.Contains(beside(), name) {
			f.Beside[name] = ms
			continue
		}
		f.CPU[name] = ms
		f.CPUSum += ms
	}
	for name, bytes := range memory.Peak {
		f.Memory[name] = megabytes(bytes)
	}
	f.MemorySum = megabytes(memory.Sum)
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// The processes beside Waybill.
func beside() []string {
	return []string{load.KindPublisher, load.KindReceiver, load.KindLoop, load.KindCaller, load.KindBackEnd}
}

// order sorts the names of processes as an event meets them.
func order(by map[string]float64) []string {
	flow := []string{"waybill", "api", "dispatcher", "nats", "postgres", load.KindPublisher, load.KindReceiver, load.KindLoop}
	return slices.SortedFunc(maps.Keys(by), func(a, b string) int { return slices.Index(flow, a) - slices.Index(flow, b) })
}

// verdict is a target beside what was reached.
type verdict struct {
	Figure string  `json:"figure"`
	Least  bool    `json:"least"`
	Want   float64 `json:"want"`
	Got    float64 `json:"got"`
	Met    bool    `json:"met"`
}

func (v verdict) String() string {
	sign, word := "≤", "missed"
	if v.Least {
		sign = "≥"
	}
	if v.Met {
		word = "met"
	}
	return fmt.Sprintf("%s %s: %s", sign, number(v.Want), word)
}
