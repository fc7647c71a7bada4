package tenant_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/gateway/internal/tenant"
)

// Work of 1 ms is followed by a rest of 2 ms, until it has rested for 2 s.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rest := tenant.NewPace(ctx)
		rests := func(work, want time.Duration) {
			t.Helper()
			<-time.After(work)
			began := time.Now()
			rest()
			if got := time.Since(began); got != want {
				t.Errorf("after %s of work it rests for %s, want %s", work, got, want)
			}
		}
		rests(900*time.Microsecond, 0)
		rests(100*time.Microsecond, 2*time.Millisecond)
		rests(5*time.Millisecond, 10*time.Millisecond)
		rests(900*time.Millisecond, 1800*time.Millisecond)
		rests(time.Second, 188*time.Millisecond)
		rests(time.Second, 0)
		rest = tenant.NewPace(ctx)
		cancel()
		rests(time.Second, 0)
	})
}

// A site can rest at each of its routes.
func TestRests(t *testing.T) {
	t.Parallel()
	const routesOfFile = 100
	var paths []string
	for i := range routesOfFile {
		paths = append(paths, fmt.Sprintf(`"/%d":{"get":%s}`, i, strings.Replace(handled("staticHandler", `{"body":""}`), `"op"`, fmt.Sprintf(`"op%d"`, i), 1)))
	}
	rests := 0
	_, faults := compile(map[string]string{"a.oas.json": `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{` + strings.Join(paths, ",") + `}}`},
		tenant.Rules{Rest: func() { rests++ }})
	if len(faults) > 0 || rests < 2*routesOfFile { // once when they are read, once when they are made
		t.Errorf("%d rests, faults %v", rests, faults)
	}
}
