package deliveries_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/deliveries"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, deliveries.Module())
}
