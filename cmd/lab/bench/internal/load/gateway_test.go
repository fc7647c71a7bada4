package load_test

import (
	"strings"
	"testing"
	"time"

	"waybill.dev/cmd/lab/bench/internal/load"
)

// A caller counts what it gets through the bare proxy, and apart from that what is no 200.
func TestCallerThroughProxy(t *testing.T) {
	t.Parallel()
	back, near, broken, caller := start(t, load.KindBackEnd), start(t, load.KindProxy), start(t, load.KindProxy), start(t, load.KindCaller)
	behind, err := back.Open(1024)
	if err != nil {
		t.Fatal(err)
	}
	good, err := near.Proxy(behind.Address, "", "")
	if err != nil {
		t.Fatal(err)
	}
	bad, err := broken.Proxy("127.0.0.1:1", "", "") // where nobody listens
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		address, path string
		refused       string
	}{
		{good.Address, "/any", ""},
		{good.Address, load.StaticPath, ""},
		{bad.Address, load.StaticPath, ""},
		{bad.Address, "/any", "502"},
	} {
		p, err := caller.Ask(load.Ask{Address: row.address, Path: row.path, Connections: 3, For: 100 * time.Millisecond})
		if err != nil || (p.Events > 0) != (row.refused == "") || (p.Refused > 0) != (row.refused != "") || !strings.HasPrefix(p.Fault, row.refused) {
			t.Errorf("%s%s: %+v, %v", row.address, row.path, p, err)
		}
	}
}
