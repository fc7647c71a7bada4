package domain

// Revision orders the states of a delivery: the log takes a state only when its revision is
// greater than that of the one it has. A run begins at a multiple of RunStep, each outcome of
// it adds 2, and one above the state before is the note that an attempt takes long.
type Revision int64

const (
	// RunStep separates the runs of a delivery: a retry or replay that is asked for starts at
	// the next multiple, above every state that the run before can reach.
	RunStep = 1000
	// FirstOutcome is the revision of a delivery's first outcome.
	FirstOutcome = Revision(0) + outcomeStep

	outcomeStep = 2
)

// Noted returns the revision of the note that an attempt takes long.
func (r Revision) Noted() Revision { return r + 1 }

// Next returns the revision of the next outcome.
func (r Revision) Next() Revision { return r + outcomeStep }

// Run returns the first revision of the run.
func (r Revision) Run() Revision { return r - r%RunStep }

// NextRun returns the first revision of a new run.
func (r Revision) NextRun() Revision { return r.Run() + RunStep }

// First reports whether a state of this revision is the first that the log hears of its
// delivery; noted: a note of it came before.
func (r Revision) First(noted bool) bool {
	return r == Revision(0).Noted() || r == FirstOutcome && !noted
}

// HasOutcome reports whether a delivery that stands at r has an outcome: a note is none.
func (r Revision) HasOutcome() bool { return r >= FirstOutcome }

// WentOn reports whether the log, which has a delivery at recorded, knows of an outcome after
// the state r: then a copy of that state is outdated.
func (r Revision) WentOn(recorded Revision) bool { return recorded >= r.Next() }
