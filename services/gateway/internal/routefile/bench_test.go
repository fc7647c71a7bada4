package routefile_test

import (
	"os"
	"testing"

	"waybill.dev/services/gateway/internal/routefile"
)

// BenchmarkLoad reads the shipped routes, schemas of all tools included.
func BenchmarkLoad(b *testing.B) {
	dir := os.DirFS("../../../../config")
	shipped := func(name string) (string, bool) { return "1.0.0", name == "WAYBILL_VERSION" }
	for b.Loop() {
		if _, found := routefile.Load(nil, dir, shipped); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
