package bus

import (
	"math"
	"strconv"
	"strings"
)

// MissingPlaces are places of an account, from First to Last, whose events did not come.
type MissingPlaces struct {
	Account     string
	First, Last int64
}

// AskPlaces asks the relay to publish the events with missing places at once. The announcement may be lost.
func (b *Bus) AskPlaces(m MissingPlaces) {
	b.Announce(SubjectRelay, []byte(m.Account+" "+strconv.FormatInt(m.First, 10)+" "+strconv.FormatInt(m.Last, 10)))
}

// ParsePlaces reads the body of an announcement on SubjectRelay; false: it asks for no places. A
// body with only an account asks for all of its places.
func ParsePlaces(body []byte) (MissingPlaces, bool) {
	parts := strings.Split(string(body), " ")
	m := MissingPlaces{Account: parts[0], First: 1, Last: math.MaxInt64}
	if len(parts) == 3 {
		var err1, err2 error
		m.First, err1 = strconv.ParseInt(parts[1], 10, 64)
		m.Last, err2 = strconv.ParseInt(parts[2], 10, 64)
		if err1 != nil || err2 != nil {
			return MissingPlaces{}, false
		}
	}
	return m, m.Account != "" && (len(parts) == 1 || len(parts) == 3)
}
