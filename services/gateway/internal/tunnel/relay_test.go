package tunnel

import (
	"context"
	"fmt"
	"testing"
)

// The slow services of one account leave room for those of others.
func TestRequestsOfOneAccount(t *testing.T) {
	t.Parallel()
	a := inFlight{running: make(map[string]context.CancelFunc), accounts: make(map[string]int)}
	fill := func(account string) (n int) {
		for a.begin(account, fmt.Sprintf("%s-%d", account, n), func() {}) {
			n++
		}
		return n
	}
	if one, other := fill("one"), fill("other"); one != maxAskedShare || other != maxAsked-maxAskedShare {
		t.Errorf("one account has %d, and the other %d", one, other)
	}
	if fill("third") != 0 {
		t.Error("there are more than all of them may be")
	}
	a.done("one", "one-0")
	if a.begin("third", "one-1", func() {}) {
		t.Error("two answers go to one place")
	}
	if !a.begin("third", "third-0", func() {}) {
		t.Error("what is done keeps its place")
	}
}
