package deliver

import "testing"

func TestWhatLetsOthersPass(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		what string
		job  *Job
		want bool
	}{
		{"a delivery", &Job{}, false},
		{"one of a wide event", &Job{Lane: Wide}, true},
		{"one from a hold queue", &Job{Lane: Drained}, true},
		{"a probe", &Job{Lane: Drained, Probe: true}, false},
		{"one that is due", &Job{Lane: Due}, false},
		{"one in its turn", &Job{Lane: Ordered}, false},
	} {
		if got := row.job.yields(); got != row.want {
			t.Errorf("%s lets others pass: %v, want %v", row.what, got, row.want)
		}
	}
}
