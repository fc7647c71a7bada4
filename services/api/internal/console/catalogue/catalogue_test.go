package catalogue_test

import (
	"testing"

	"waybill.dev/services/api/internal/console/catalogue"
	"waybill.dev/services/api/internal/console/consoletest"
)

func TestTemplates(t *testing.T) { consoletest.Templates(t, catalogue.Module()) }
