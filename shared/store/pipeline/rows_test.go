package pipeline

import (
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestRows(t *testing.T) {
	storetest.Rows(t, "pipeline",
		&configVersionRow{}, &webhookRow{}, &webhookCountRow{}, &webhookHealthRow{}, &webhookCircuitRow{}, &webhookAlertRow{}, &webhookAcknowledgementRow{}, &eventRow{}, &outboxRow{}, &orderingAccountRow{}, &requestRow{},
		&deliveryRow{}, &attemptRow{}, &idempotencyRow{}, &busStreamRow{}, &jobRow{}, &jobDeliveryRow{}, &signingKeyRow{}, &webhookCursorRow{})
}
