package filter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"waybill.dev/shared/filter"
)

// Of many ranges exactly those are found that a value is within.
func TestRanges(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for size := range 40 {
		var ranges []filter.Range
		var filters []*filter.Filter
		for range size + 1 {
			low, high := random.IntN(20), random.IntN(20)
			text := [...]string{
				fmt.Sprintf(`{"data.a":{"$gte":%d}}`, low), fmt.Sprintf(`{"data.a":{"$lte":%d}}`, high),
				fmt.Sprintf(`{"data.a":{"$gte":%d,"$lte":%d}}`, low, high), fmt.Sprintf(`{"data.b":{"$gt":"x"},"data.a":{"$gte":%d,"$lte":%d}}`, low, high),
			}[random.IntN(4)]
			f := parse(t, text)
			within, ok := f.Range()
			if !ok || within.Place() != "0data.a" || within.Name() != "a" {
				t.Fatalf("%s has the range %+v", text, within)
			}
			ranges, filters = append(ranges, within), append(filters, f)
		}
		all := filter.NewRanges(ranges)
		for value := -1; value < 22; value++ {
			read := filter.Read(event(fmt.Sprintf(`{"a":%d,"b":"y"}`, value)))
			found := make(map[int]int)
			all.Find(read, func(number int) { found[number]++ })
			for i, f := range filters {
				if want := f.Matches(read); found[i] > 1 || found[i] == 1 != want {
					t.Fatalf("range %d of %d, with %d: found %d times, matches: %v", i, len(filters), value, found[i], want)
				}
			}
		}
	}
	for _, text := range []string{`{}`, `{"data.a":1}`, `{"$or":[{"data.a":{"$gt":1}}]}`, `{"data.a":{"$not":{"$gt":1}}}`} {
		if within, ok := parse(t, text).Range(); ok {
			t.Errorf("%s has the range %+v", text, within)
		}
	}
}
