package docstest_test

import (
	"os"
	"strings"
	"testing"

	"waybill.dev/shared/filter"
)

// The filter that the page shows is one, and the page names every operator.
func TestFiltersOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/deliveries.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Filters\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, example, _ := strings.Cut(section, "```json\n")
	example, _, _ = strings.Cut(example, "```")
	f, faults := filter.Parse([]byte(example))
	if len(faults) > 0 {
		t.Fatalf("the example: %+v", faults)
	}
	for data, want := range map[string]bool{
		`{"carrier":"dhl","weightKg":10.5,"tags":["express"]}`: true,
		`{"carrier":"dhl","weightKg":10.0,"tags":["express"]}`: false,
		`{"carrier":"dhl","weightKg":11}`:                      false,
	} {
		payload := `{"id":"e","type":"shipment.delivered","timestamp":"2026-09-01T12:00:00Z","data":` + data + `}`
		if got := f.Matches(filter.Read([]byte(payload))); got != want {
			t.Errorf("the example matches %s: %v", data, got)
		}
	}
	for _, op := range filter.Operators() {
		if !strings.Contains(section, "`"+op) {
			t.Errorf("the page does not name %s", op)
		}
	}
}
