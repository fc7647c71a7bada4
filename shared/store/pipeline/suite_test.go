package pipeline_test

import (
	"os"
	"testing"

	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what callers rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, func(b *storetest.Bench) *bench { return &bench{pipelinetest.New(b)} }, map[string]storetest.Tests[*bench]{
		"accept":   acceptTests(),
		"webhooks": webhookTests(),
		"log":      logTests(),
		"pages":    pageTests(),
		"requests": requestTests(),
		"relay":    relayTests(),
		"maintain": maintainTests(),
		"growth":   growthTests(),
		"audit":    auditTests(),
		"jobs":     jobTests(),
		"signing":  signingTests(),
		"feed":     feedTests(),
		"expiry":   expiryTests(),
	})
}

type bench struct{ *pipelinetest.Bench }

const account = pipelinetest.Account

// noon is when the suite's clock starts.
var noon = storetest.Noon()
