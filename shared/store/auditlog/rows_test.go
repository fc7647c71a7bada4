package auditlog

import (
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestRows(t *testing.T) { storetest.Rows(t, "auditlog", &auditRow{}, &dayRow{}) }
