package tunnels

import (
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestRows(t *testing.T) {
	storetest.Rows(t, "tunnels", tunnelRow{}, tokenRow{}, connectionRow{}, operationRow{})
}
