package boot_test

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"waybill.dev/cmd/internal/boot"
)

// What signals a process and then its group asks once: the process ends in order. Without that, this test's
// process would end here with exit code 1.
func TestSignalsAtOnceAreOne(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM) // for good: one may arrive when the others have been seen
	asked := 0
	ctx, stop := boot.Signals(t.Context(), func() {
		asked++
		for range 2 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	})
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
