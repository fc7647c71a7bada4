package deliveries

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Steps say how long after the first one they were, those that have a time and are not yet to come.
func TestAfter(t *testing.T) {
	t.Parallel()
	at := func(second string) *string { return new("2026-11-18T15:02:" + second + "Z") }
	var got []string
	for _, s := range after([]step{{Title: "Fan-out"}, {At: at("11")}, {Title: "Circuit"}, {At: at("12.5")}, {At: at("41")}, {At: at("59"), Soon: true}}) {
		got = append(got, s.After)
	}
	if diff := cmp.Diff([]string{"", "", "", "+1.5\u202fs", "+30\u202fs", ""}, got); diff != "" {
		t.Error(diff)
	}
}
