package tenant_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill.dev/services/gateway/internal/folder"
	"waybill.dev/services/gateway/internal/tenant"
)

// What a hostile archive may take until it is refused, with what the collector has not taken back
// yet.
const (
	maxPeak = 128 << 20
	maxTime = 20 * time.Second
)

// repeated returns so many texts of a format, each with its number twice.
func repeated(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i, i)
	}
	return strings.Join(list, ",")
}

// referring are route files of which many operations have a schema of their own that refers to one
// component.
func referring(component string, operations int, more string) string {
	const operation = `"/x%d":{"post":{"operationId":"op%d","requestBody":{"content":{"application/json":{"schema":{"properties":{"b":{"$ref":"#/components/schemas/Big"}}}}}},
		"x-gateway-route":{MORE"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":""}}}}}`
	return `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"components":{"schemas":{"Big":` + component + `}},"paths":{` +
		repeated(operations, strings.Replace(operation, "MORE", more, 1)) + `}}`
}

// A small archive whose schemas refer to large ones again and again is refused, and takes no more
// memory or time until then than any other.
func TestHostileSchemas(t *testing.T) { //nolint:paralleltest // memory is the process's
	large := func(members int, each string) string {
		return `{"properties":{` + repeated(members, `"p%d-%d":`+each) + `}}`
	}
	const tool = `"mcp":{"type":"tool"},`
	for name, tc := range map[string]struct {
		file string
		more int // other files with much that means nothing
	}{
		"a large component":          {referring(large(1000, `{"type":"string"}`), 5000, ""), 0},
		"many operations":            {referring(large(50, `{"type":"string"}`), 7000, ""), 0},
		"a larger one":               {referring(large(8000, `{"type":"string"}`), 5000, ""), 0},
		"tools":                      {referring(large(50, `{"type":"string"}`), 5000, tool), 0},
		"tools beside much else":     {referring(large(50, `{"type":"string"}`), 2500, tool), 1},
		"long texts":                 {referring(`{"description":"`+strings.Repeat("x", 2<<20)+`"}`, 1000, tool), 0},
		"references in references":   {referring(`{"allOf":[`+repeated(200, `{"properties":{"a%d":{"not":{"const":%d}}}}`)+`]}`, 5000, tool), 0},
		"regular expressions":        {referring(large(20_000, `{"pattern":"(?:[a-z]{3}|x){100}%[1]d"}`), 1, ""), 0},
		"one that is as large as it": {referring(large(40_000, `true`), 1, ""), 0},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // as above
			packed := zipped(t, besides(tc.file, tc.more))
			var said string
			most, took := peak(func() {
				made, faults := tenant.Rules{}.Make(t.Context(), folder.Zip, packed, build(), nil)
				if made != nil || len(faults) != 1 {
					said = fmt.Sprintf("%d faults, %v", len(faults), made != nil)
				}
				said += faults.Error()
			})
			if !strings.HasPrefix(said, "a.oas.json: op") || !strings.Contains(said, "too large, each schema with all that it refers to") {
				t.Errorf("%.500s", said)
			}
			if most > maxPeak || took > maxTime {
				t.Errorf("%d bytes take %d MiB of memory and %s", len(packed), most>>20, took)
			}
			t.Logf("%d bytes: %d MiB, %s", len(packed), most>>20, took.Round(time.Millisecond))
		})
	}
}

// besides are route files with so many others, which have much in them that means nothing.
func besides(file string, others int) map[string]string {
	files := map[string]string{"a.oas.json": file}
	for i := range others {
		files[fmt.Sprintf("z%d.oas.json", i)] = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{},"x":[` + strings.Repeat(`{"":0},`, 30_000) + `0]}`
	}
	return files
}

// peak returns how much memory more than before was in use at a time, and how long it took. The collector works often
// meanwhile: otherwise half of what is measured is what it has not taken back yet, and differs by a third from run to run.
func peak(do func()) (most uint64, took time.Duration) {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runtime.GC()
	before := inUse()
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				most = max(most, inUse())
			}
		}
	})
	began := time.Now()
	do()
	took = time.Since(began)
	last := inUse()
	close(stop)
	watching.Wait()
	return max(most, last, before) - before, took
}

// zipped packs files.
func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for name, text := range files {
		to, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(to, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
