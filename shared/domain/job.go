package domain

import "time"

// JobKind says what a job was asked for as.
type JobKind string

// The kinds of jobs. Both send deliveries again.
const (
	JobRetry  JobKind = "retry"  // of any webhooks
	JobReplay JobKind = "replay" // of one webhook in a time range
)

// JobStatus is where a job stands.
type JobStatus string

// The statuses of a job.
const (
	JobRunning   JobStatus = "running"
	JobDone      JobStatus = "done"      // everything was sent, and each delivery has had an attempt
	JobCancelled JobStatus = "cancelled" // what was not sent by then is not sent
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
	// Sent is how many of them were asked for again. What has changed since, is asked for
	// already, or has no webhook any more is passed over.
	Sent int
	// Delivered and Failed count the first attempts of what was sent by their result, and as
	// failed what ended without one.
	Delivered, Failed int
}

// ParseJobID checks that text is a job's id.
func ParseJobID(text string) (string, error) {
	if _, ok := uuidBytes(text); !ok {
		return "", ErrWebhookID
	}
	return text, nil
}
