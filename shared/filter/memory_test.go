package filter_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"waybill.dev/shared/filter"
)

// What an account may have in filters bounds what these take in memory: some bytes for each as written.
func TestMemory(t *testing.T) {
	var clauses, numbers, texts []string
	for i := range filter.MaxClauses {
		clauses = append(clauses, fmt.Sprintf(`"data.member%d.inner":{"$gt":%d}`, i, i))
	}
	for i := range 2000 {
		numbers = append(numbers, strconv.Itoa(i))
	}
	for i := range 1000 {
		texts = append(texts, fmt.Sprintf(`"%04d"`, i))
	}
	for name, text := range map[string]string{
		"clauses": "{" + strings.Join(clauses, ",") + "}",
		"numbers": `{"data.n":{"$in":[` + strings.Join(numbers[:1500], ",") + `]}}`,
		"texts":   `{"data.n":{"$in":[` + strings.Join(texts, ",") + `]}}`,
		"$or":     `{"$or":[{` + strings.Join(clauses, "},{") + `}]}`,
	} {
		const n = 200
		kept := make([]*filter.Filter, n)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			f, faults := filter.Parse([]byte(strings.Clone(text)))
			if len(faults) > 0 {
				t.Fatal(name, faults)
			}
			kept[i] = f
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := float64(after.HeapAlloc-before.HeapAlloc) / n
		if most := map[string]float64{"clauses": 16, "$or": 18}[name]; each > max(most, 4)*float64(len(text)) {
			t.Errorf("%s: %d bytes take %.0f", name, len(text), each)
		}
		t.Logf("%s: %d bytes take %.0f, %.1f for each", name, len(text), each, each/float64(len(text)))
		runtime.KeepAlive(kept)
	}
}
