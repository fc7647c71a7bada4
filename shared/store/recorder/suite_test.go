package recorder_test

import (
	"os"
	"testing"

	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what dispatchers rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, pipelinetest.New, map[string]storetest.Tests[*bench]{
		"record": recordTests(),
		"numbers of shipments": {
			"are read of many webhooks": testSequencesOfMany,
		},
		"starts of orders": {
			"are not written again": testStartKnown,
			"are of one stream":     testStartOnAnotherStream,
		},
		"deliveries": {
			"are counted for their consumer, up to a quota":    testMetering,
			"are counted at one cost, however long the log is": testMeteringCost,
		},
	})
}

type bench = pipelinetest.Bench

const account = pipelinetest.Account

// noon is when the suite's clock starts.
var noon = storetest.Noon()
