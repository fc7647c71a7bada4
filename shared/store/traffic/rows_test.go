package traffic

import (
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestRows(t *testing.T) {
	storetest.Rows(t, "traffic", &callRow{}, &notKeptRow{}, &writerRow{}, &requestRow{})
}
