package domain

import "time"

// JobKind is the kind of operation that made a job.
type JobKind string

// The kinds of jobs. Both send deliveries again.
const (
	JobRetry  JobKind = "retry"  // of any webhooks
	JobReplay JobKind = "replay" // of one webhook in a time range
)

// JobStatus is the status of a job.
type JobStatus string

// The statuses of a job.
const (
	JobRunning   JobStatus = "running"
	JobDone      JobStatus = "done"      // everything was sent, and each delivery has had an attempt
	JobCancelled JobStatus = "cancelled" // deliveries that were not sent by then are not sent
)

// Job sends many deliveries again.
type Job struct {
	ID        string // a UUID that sorts by time
	Account   string
	Kind      JobKind
	Status    JobStatus
	Filter    []byte // JSON, as it was asked for
	CreatedBy string // the caller's sub
	CreatedAt time.Time
	// Matched is how many deliveries matched when the job was made.
	Matched int
	// Sent is how many of them were asked for again. Deliveries are skipped if they have changed
	// since, are asked for already, or have no webhook any more.
	Sent int
	// Delivered and Failed count the first attempts of the deliveries that were sent, by their
	// result. Deliveries that ended without an attempt count as failed.
	Delivered, Failed int
}

// ParseJobID checks that text is a job's id.
func ParseJobID(text string) (string, error) {
	if _, ok := uuidBytes(text); !ok {
		return "", ErrWebhookID
	}
	return text, nil
}
