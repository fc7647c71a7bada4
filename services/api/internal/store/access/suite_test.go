package access_test

import (
	"os"
	"testing"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what callers rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, newBench, map[string]storetest.Tests[*bench]{
		"accounts":  accountTests(),
		"buckets":   bucketTests(),
		"consumers": consumerTests(),
		"keys":      keyTests(),
		"pages":     pageTests(),
		"audit":     auditTests(),
		"sessions":  sessionTests(),
		"managed":   managedTests(),
		"counts":    countTests(),
	})
}

// bench has webhooks, too, for the audit log is one.
type bench struct {
	*pipelinetest.Bench
	*access.Access
	*accounts.Accounts
}

func newBench(b *storetest.Bench) *bench {
	return &bench{pipelinetest.New(b), access.New(b.DB), accounts.New(b.DB)}
}

const account = pipelinetest.Account

// noon is when the suite's clock starts.
var noon = storetest.Noon()
