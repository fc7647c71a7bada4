package jobs_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/jobs"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, jobs.Module())
}
