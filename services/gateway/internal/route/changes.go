package route

import (
	"context"

	"waybill.dev/shared/apikey"
)

// Changing is a handler whose answers change with what happens in the caller's account.
type Changing interface {
	// ChangesWith returns the kinds of changes after which it may answer differently; see Follower.
	ChangesWith() []string
}

// Changes tells the followers of an account what changes in it.
type Changes interface {
	// Follow begins to gather what changes in an account. The error is a *problem.Problem.
	Follow(account string) (Follower, error)
}

// Follower gathers what changes in an account, until it is stopped.
type Follower interface {
	// Kinds returns the kinds of what has changed since it was called last.
	Kinds() []string
	// Ended is closed when there is no more to come, because the process stops.
	Ended() <-chan struct{}
	Stop()
}

// Admitter is a policy that lets callers in, and can say later whether it still would.
type Admitter interface {
	// Again finds the caller anew; nil: the caller may not enter any more. While nobody can tell, the caller is the one
	// who was let in: nothing can be revoked then either.
	Again(ctx context.Context, r *Request) *apikey.Principal
}
