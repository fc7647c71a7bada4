package routefile_test

import (
	"os"
	"testing"

	"waybill.dev/services/gateway/internal/routefile"
)

// BenchmarkLoad reads the shipped routes, schemas of all tools included.
func BenchmarkLoad(b *testing.B) {
	dir := os.DirFS("../../../../config")
	for b.Loop() {
		if _, found := routefile.Load(nil, dir, environment); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
