package rollup_test

import (
	"os"
	"testing"

	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/rollup"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what statistics rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, newBench, map[string]storetest.Tests[*bench]{
		"rollups": {
			"equal what was recorded":       testExact,
			"count accepted events once":    testEvents,
			"read any span of time":         testSpans,
			"are exact while they merge":    testConcurrent,
			"merge large deltas in parts":   testLarge,
			"are bounded":                   testBounded,
			"end with the retention":        testPurge,
			"tell the webhooks' last times": testLast,
		},
	})
}

// bench is the tables with all that writes them, and the counts.
type bench struct {
	*pipelinetest.Bench
	rollups *rollup.Rollups
}

func newBench(b *storetest.Bench) *bench { return &bench{pipelinetest.New(b), rollup.New(b.DB)} }

// read answers one query.
func (b *bench) read(t *testing.T, account string, q rollup.Query) []rollup.Row {
	t.Helper()
	lists, err := b.rollups.Read(t.Context(), account, q)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return lists[0]
}

// merge merges all there is.
func (b *bench) merge(t *testing.T) (merged int) {
	t.Helper()
	for more := true; more; {
		var n int
		var err error
		if n, more, err = b.rollups.Merge(t.Context()); err != nil {
			t.Fatalf("merge: %v", err)
		}
		merged += n
	}
	return merged
}
