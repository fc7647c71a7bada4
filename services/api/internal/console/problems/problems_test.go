package problems_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/problems"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, problems.Module())
}
