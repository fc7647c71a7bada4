package webhooks_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/webhooks"
)

func TestTemplates(t *testing.T) { consoletest.Templates(t, webhooks.Module()) }
