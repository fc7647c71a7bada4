package metering

import (
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestRows(t *testing.T) {
	storetest.Rows(t, "metering", &meterRow{}, &featureRow{}, &planRow{}, &subscriptionRow{}, &hourRow{})
}
