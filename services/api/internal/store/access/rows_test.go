package access

import (
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestRows(t *testing.T) {
	storetest.Rows(t, "access", &projectRow{}, &bucketRow{}, &consumerRow{}, &apiKeyRow{}, &managerRow{}, &sessionRow{})
}
