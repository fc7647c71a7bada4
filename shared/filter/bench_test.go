package filter_test

import (
	"fmt"
	"strings"
	"testing"

	"waybill.dev/shared/filter"
)

// One filter over an ordinary event, and one at both limits: clauses, and the size of an event.
func BenchmarkMatches(b *testing.B) {
	ordinary := event(`{"shipmentId":"shp_1","trackingNumber":"1Z999","carrier":"dhl","destination":{"country":"DE","city":"Berlin"},"weightKg":12.5,"tags":["a","b"]}`)
	var clauses []string
	for i := range filter.MaxClauses {
		clauses = append(clauses, fmt.Sprintf(`{"data.m%d":{"$gt":%d}}`, i, i))
	}
	var members []string
	for i := range 15_000 {
		members = append(members, fmt.Sprintf(`"m%d":%d`, i, i))
	}
	for _, c := range []struct {
		name, filter string
		payload      []byte
	}{
		{"ordinary", `{"data.carrier":"dhl","data.destination.country":{"$in":["DE","AT"]},"data.weightKg":{"$gt":10}}`, ordinary},
		{"largest", `{"$or":[` + strings.Join(clauses, ",") + `]}`, event("{" + strings.Join(members, ",") + "}")},
	} {
		f := parse(b, c.filter)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.payload)))
			for b.Loop() {
				_ = f.Matches(filter.Read(c.payload))
			}
		})
	}
}
