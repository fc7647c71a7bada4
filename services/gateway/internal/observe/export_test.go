package observe

import "waybill.dev/shared/store/traffic"

// Calls returns what is counted and not written yet.
func (r *Recorder) Calls() map[traffic.CallKey]*traffic.Calls { return r.next.calls }
