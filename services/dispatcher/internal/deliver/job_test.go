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
		{"one of a wide event", &Job{Wide: true}, true},
		{"one from a hold queue", &Job{FromHold: true}, true},
		{"a probe", &Job{FromHold: true, Probe: true}, false},
	} {
		if got := row.job.yields(); got != row.want {
			t.Errorf("%s lets others pass: %v, want %v", row.what, got, row.want)
		}
	}
}
