package deliverylog

import (
	"math"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/insight"
	"waybill.dev/services/api/internal/web"
)

// Hours is how many hours charts show, of which the last is the present one.
const Hours = 24

// Hour returns of which of these hours a row is; ok is false when it is of none.
func Hour(r *insight.Row, now time.Time) (hour int, ok bool) {
	hour = int(math.Floor(web.Time(r.Start).Sub(firstHour(now)).Hours()))
	return hour, hour >= 0 && hour < Hours
}

func firstHour(now time.Time) time.Time {
	return now.UTC().Truncate(time.Hour).Add((1 - Hours) * time.Hour)
}

// Bars are the attempts of these hours.
func Bars(rows []insight.Row, now time.Time) console.Bars {
	b := console.Bars{Label: "Attempts an hour, the last 24 hours", Good: "succeeded", Bad: "failed", Points: make([]console.Point, Hours)}
	for i := range b.Points {
		b.Points[i].Start = firstHour(now).Add(time.Duration(i) * time.Hour)
	}
	for i := range rows {
		if hour, ok := Hour(&rows[i], now); ok {
			b.Points[hour].Good += int(rows[i].Succeeded)
			b.Points[hour].Bad += int(rows[i].Failed)
		}
	}
	return b
}
