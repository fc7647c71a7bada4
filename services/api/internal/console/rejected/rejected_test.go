package rejected_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/rejected"
)

func TestTemplates(t *testing.T) { consoletest.Templates(t, rejected.Module()) }
