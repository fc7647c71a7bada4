package counts

import (
	"os"
	"testing"

	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

func TestRows(t *testing.T) { storetest.Rows(t, "counts", &countRow{}) }
