package route

import (
	"context"

	"waybill.dev/shared/apikey"
)

// Changing is a handler whose answers change with events in the caller's account.
type Changing interface {
	// ChangesWith returns the kinds of changes after which the handler may answer differently; see Follower.
	ChangesWith() []string
}

// Changes notifies the followers of an account of changes in it.
type Changes interface {
	// Follow begins to gather what changes in an account. The error is a *problem.Problem.
	Follow(account string) (Follower, error)
}

// Follower gathers changes in an account, until it is stopped.
type Follower interface {
	// Kinds returns the kinds of the changes since its last call.
	Kinds() []string
	// Ended is closed when there is no more to come, because the process stops.
	Ended() <-chan struct{}
	Stop()
}

// Admitter is a policy that lets callers in, and can later check whether it still would.
type Admitter interface {
	// Again authenticates the caller again; nil: the caller is not let in any more. While that can't be checked, Again
	// returns the caller who was let in: no key can be revoked in that time either.
	Again(ctx context.Context, r *Request) *apikey.Principal
}
