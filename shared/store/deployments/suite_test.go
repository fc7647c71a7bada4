package deployments_test

import (
	"os"
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
