package metering

import (
	"testing"

	"waybill.dev/services/api/internal/console/consoletest"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module())
}
