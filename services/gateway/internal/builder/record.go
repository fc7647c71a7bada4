package builder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/deployments"
)

const (
	// maxLog bounds the log of a build, in bytes of JSON. The faults have a bound of the same size.
	maxLog = 256 << 10
	// reserved is the room that is kept for the last lines.
	reserved = 4 << 10
	// shortest is the minimum length of a secret that is hidden in texts of other code: a shorter
	// one would match in every text.
	shortest = 4
)

// record holds the steps, the log and the faults of a build. It never contains a secret, even when
// the code that checks the files names one.
type record struct {
	mu      sync.Mutex
	steps   []domain.BuildStep
	log     []domain.BuildLine
	logSize int
	list    []domain.BuildFault
	size    int // bytes of list
	missing int // number of faults that did not fit
	secrets []string
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// hideSecrets takes the values of secrets, which from now on nothing names.
func (r *record) hideSecrets(variables []domain.Variable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range variables {
		if v.Secret && len(v.Value) >= shortest {
			r.secrets = append(r.secrets, v.Value.Reveal())
		}
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
}

func (r *record) clean(text string) string {
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// begin begins a step; the one before has succeeded.
func (r *record) begin(step string) {
	r.succeeded()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, domain.BuildStep{Name: step, Status: domain.BuildBuilding, StartedOn: now()})
}

// succeeded ends the step that was begun.
func (r *record) succeeded() { r.end(domain.BuildSuccess) }

func (r *record) end(status domain.BuildStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := len(r.steps) - 1; last >= 0 && r.steps[last].Status == domain.BuildBuilding {
		r.steps[last].Status, r.steps[last].FinishedOn = status, now()
	}
}

// addLine adds a line to the log of the present step.
func (r *record) addLine(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(domain.BuildLine{Level: "info", Message: r.clean(message)}, maxLog-reserved)
}

// add adds a line, if the log does not get longer than room.
func (r *record) add(line domain.BuildLine, room int) {
	line.Step, line.Timestamp = r.steps[len(r.steps)-1].Name, now()
	if size := length(line); r.logSize+size <= room {
		r.logSize += size
		r.log = append(r.log, line)
	}
}

// length returns how many bytes a value takes in a list.
func length(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		return maxLog
	}
	return len(text) + 1
}

// faults ends the current step with its faults.
func (r *record) faults(faults routefile.Faults) {
	r.end(domain.BuildError)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range faults {
		fault := domain.BuildFault{File: r.clean(f.File), Operation: r.clean(f.Operation), Pointer: r.clean(f.Pointer), Detail: r.clean(f.Message)}
		if size := length(fault); r.size+size <= maxLog-reserved {
			r.size += size
			r.list = append(r.list, fault)
		} else {
			r.missing++
		}
		r.add(domain.BuildLine{Level: "error", Message: fault.Detail, File: fault.File, Operation: fault.Operation, Pointer: fault.Pointer}, maxLog-reserved)
	}
	if r.missing > 0 {
		more := fmt.Sprintf("%s more, for which there is no room here", number(r.missing, "fault"))
		r.list = append(r.list, domain.BuildFault{Detail: more})
		r.add(domain.BuildLine{Level: "error", Message: more}, maxLog)
	}
}

func (r *record) buildFaults() []domain.BuildFault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

func (r *record) progress() deployments.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return deployments.Progress{Steps: slices.Clone(r.steps), Log: slices.Clone(r.log)}
}
