//go:build race

package attack

const (
	slower = 12
	// Under the race detector, pools throw away at random what is given back to them.
	larger = 16
)
