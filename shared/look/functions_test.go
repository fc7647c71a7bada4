package look

import (
	"testing"
	"time"
)

func TestOffset(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "+0\u202fms", 80 * time.Millisecond: "+80\u202fms", 1999 * time.Millisecond: "+1.9\u202fs", 5 * time.Second: "+5\u202fs", -80 * time.Millisecond: "−80\u202fms",
		303 * time.Second: "+5\u202fmin 3\u202fs", 2*time.Hour + 59*time.Minute: "+2\u202fh 59\u202fmin", 49 * time.Hour: "+2\u202fd 1\u202fh",
	} {
		if got := Offset(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
