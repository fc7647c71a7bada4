package deployments_test

import (
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/storetest"
)

// BenchmarkListDeployments reads a page of a thousand of ten thousand deployments, with their
// builds. It is to take at most 100 ms.
func BenchmarkListDeployments(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B, db *store.Store, cpu func() time.Duration) {
		rig := &bench{Bench: &storetest.Bench{DB: db}, Deployments: deployments.New(db)}
		rig.project(b, account, project)
		rig.fill(b, project, domain.MaxDeployments)
		rig.fillBuilds(b, project)
		before := cpu()
		b.ResetTimer()
		for i := range b.N {
			page := store.Page{Limit: 1000, Offset: i % 10 * 1000}
			list, _, err := rig.ListDeployments(b.Context(), deployments.Filter{Account: account, Project: project, Page: page})
			if err != nil || len(list) != 1000 || list[0].Build == nil {
				b.Fatal(len(list), err)
			}
		}
		b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	})
}
