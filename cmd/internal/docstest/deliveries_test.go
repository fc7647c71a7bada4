package docstest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
)

// TestPictureOfDeliveries compares the arrows of the picture with what can happen to a
// delivery. What leaves the status as it is has no arrow.
func TestPictureOfDeliveries(t *testing.T) {
	t.Parallel()
	want := map[string][]string{}
	for _, change := range domain.Changes() {
		from := change.From()
		if len(from) == 0 {
			from = []domain.Status{"[*]"}
		}
		for _, status := range from {
			arrow := string(status) + " --> " + string(change.To())
			if status != change.To() && !slices.Contains(want[arrow], change.String()) {
				want[arrow] = append(want[arrow], change.String())
			}
		}
	}
	got := map[string][]string{}
	for _, b := range blocks(t, "docs/deliveries.md") {
		if b.language != "mermaid" {
			continue
		}
		for line := range strings.SplitSeq(b.text, "\n") {
			if arrow, causes, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
				got[arrow] = append(got[arrow], strings.Split(causes, ", ")...)
			}
		}
	}
	for _, arrows := range []map[string][]string{want, got} {
		for _, causes := range arrows {
			slices.Sort(causes)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arrows in docs/deliveries.md (-what can happen +drawn):\n%s", diff)
	}
}
