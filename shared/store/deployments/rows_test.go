package deployments

import (
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestRows(t *testing.T) {
	storetest.Rows(t, "deployments", versionRow{}, deploymentRow{}, sourceRow{}, buildRow{}, turnRow{}, variableRow{})
}
