package auditlog_test

import (
	"os"
	"testing"

	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what callers rely on, on both databases. That each change writes its entry is
// tried with the families that make the changes.
func TestSuite(t *testing.T) {
	storetest.Run(t, pipelinetest.New, map[string]storetest.Tests[*bench]{
		"audit": auditTests(),
	})
}

type bench = pipelinetest.Bench

const account = pipelinetest.Account

// noon is when the suite's clock starts.
var noon = storetest.Noon()
