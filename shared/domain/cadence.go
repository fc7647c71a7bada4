package domain

import "time"

// Cadence is the length of a period of a plan, as an ISO 8601 duration.
type Cadence string

// The cadences.
const (
	Hourly       Cadence = "PT1H"
	Daily        Cadence = "P1D"
	Weekly       Cadence = "P1W"
	TwoWeekly    Cadence = "P2W"
	FourWeekly   Cadence = "P4W"
	Monthly      Cadence = "P1M"
	Quarterly    Cadence = "P3M"
	HalfYearly   Cadence = "P6M"
	TwelveMonths Cadence = "P12M"
	Yearly       Cadence = "P1Y"
)

// Cadences returns all cadences, the shortest first.
func Cadences() []Cadence {
	return []Cadence{Hourly, Daily, Weekly, TwoWeekly, FourWeekly, Monthly, Quarterly, HalfYearly, TwelveMonths, Yearly}
}

// length returns the length of a cadence: in hours, or in months.
func (c Cadence) length() (hours, months int) {
	const day, week = 24, 7 * 24
	switch c {
	case Hourly:
		return 1, 0
	case Daily:
		return day, 0
	case Weekly:
		return week, 0
	case TwoWeekly:
		return 2 * week, 0
	case FourWeekly:
		return 4 * week, 0
	case Monthly:
		return 0, 1
	case Quarterly:
		return 0, 3
	case HalfYearly:
		return 0, 6
	case TwelveMonths, Yearly:
		return 0, 12
	}
	return 0, 0
}

// Fits reports whether the periods of one of the two cadences consist of whole periods of the other.
func (c Cadence) Fits(other Cadence) bool {
	hours, months := c.length()
	otherHours, otherMonths := other.length()
	switch {
	case hours > 0 && otherHours > 0:
		return max(hours, otherHours)%min(hours, otherHours) == 0
	case months > 0 && otherMonths > 0:
		return max(months, otherMonths)%min(months, otherMonths) == 0
	default:
		return max(hours, otherHours) <= 24 // months consist of whole days and hours, but not of whole weeks
	}
}

// After returns the time n periods after an anchor. Months are those of UTC. In a month without the
// anchor's day the period begins on the month's last day; later ones begin on the anchor's day again.
func (c Cadence) After(anchor time.Time, n int) time.Time {
	anchor = anchor.UTC()
	hours, months := c.length()
	if months == 0 {
		return anchor.Add(time.Duration(n*hours) * time.Hour)
	}
	year, month, day := anchor.Date()
	first := time.Date(year, month+time.Month(n*months), 1, anchor.Hour(), 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(day, last)-1)
}

// Period returns the period that contains a time, among those that begin with the hour of an
// anchor. start is in the period, end is not.
func (c Cadence) Period(anchor, at time.Time) (start, end time.Time) {
	anchor, at = anchor.UTC().Truncate(time.Hour), at.UTC()
	hours, months := c.length()
	var n int
	switch {
	case months > 0:
		n = ((at.Year()-anchor.Year())*12 + int(at.Month()-anchor.Month())) / months
	case hours > 0:
		n = int(at.Sub(anchor).Hours()) / hours
	default:
		return anchor, anchor
	}
	for c.After(anchor, n).After(at) {
		n--
	}
	for !c.After(anchor, n+1).After(at) {
		n++
	}
	return c.After(anchor, n), c.After(anchor, n+1)
}
