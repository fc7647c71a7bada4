package settings_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/settings"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, settings.Module())
}
