package domain

// Revision orders the states of a delivery: the log takes a state only if its revision is greater
// than that of the stored one. A run begins at a multiple of RunStep. Each outcome adds 2. The note
// that an attempt takes long has the revision one above the state before.
type Revision int64

const (
	// RunStep separates the runs of a delivery: a retry or replay starts at the next multiple,
	// above every state that the run before can reach.
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

// First reports whether a state with this revision is the first that the log gets of its delivery.
// noted: it got a note of the delivery before.
func (r Revision) First(noted bool) bool {
	return r == Revision(0).Noted() || r == FirstOutcome && !noted
}

// HasOutcome reports whether a delivery with revision r has an outcome; a note is no outcome.
func (r Revision) HasOutcome() bool { return r >= FirstOutcome }

// WentOn reports whether the log, in which the delivery has the revision recorded, has an outcome
// after the state r. Then a copy of that state is outdated.
func (r Revision) WentOn(recorded Revision) bool { return recorded >= r.Next() }
