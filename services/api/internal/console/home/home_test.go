package home_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/home"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, home.Module())
}
