package alerts_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/alerts"
	"waybill.dev/services/api/internal/console/consoletest"
)

func TestTemplates(t *testing.T) { consoletest.Templates(t, alerts.Module()) }
