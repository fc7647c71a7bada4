//go:build race

package attack

const (
	slower = 12
	// Under the race detector, pools randomly drop what is given back to them.
	larger = 16
)
