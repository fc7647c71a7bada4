package events_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/events"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, events.Module())
}
