package deliverylog

import (
	"math"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/kernel/web"
)

// Hours is how many hours charts show. The last one is the current hour.
const Hours = 24

// Hour returns the index of a row's hour in the chart; ok is false when the row is outside.
func Hour(r *insight.Row, now time.Time) (hour int, ok bool) {
	hour = int(math.Floor(web.Time(r.Start).Sub(firstHour(now)).Hours()))
	return hour, hour >= 0 && hour < Hours
}

func firstHour(now time.Time) time.Time {
	return now.UTC().Truncate(time.Hour).Add((1 - Hours) * time.Hour)
}

// Bars returns the chart of the attempts in these hours.
func Bars(rows []insight.Row, now time.Time) console.Bars {
	return BarsOf("Attempts an hour, the last 24 hours", rows, now, time.Hour, Hours)
}

// BarsOf returns the chart of the attempts in a number of steps. The last one is the current step.
func BarsOf(label string, rows []insight.Row, now time.Time, step time.Duration, steps int) console.Bars {
	b := console.Bars{Label: label, Good: "succeeded", Bad: "failed", Points: make([]console.Point, steps)}
	first := now.UTC().Truncate(step).Add(time.Duration(1-steps) * step)
	for i := range b.Points {
		b.Points[i].Start = first.Add(time.Duration(i) * step)
	}
	for i := range rows {
		if at := int(math.Floor(float64(web.Time(rows[i].Start).Sub(first)) / float64(step))); at >= 0 && at < steps {
			b.Points[at].Good += int(rows[i].Succeeded)
			b.Points[at].Bad += int(rows[i].Failed)
		}
	}
	return b
}
