package domains

import (
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestRows(t *testing.T) {
	storetest.Rows(t, "domains", domainRow{}, certificateRow{}, acmeRow{}, lockRow{}, stateRow{})
}
