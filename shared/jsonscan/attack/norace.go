//go:build !race

package attack

const (
	slower = 1
	larger = 1
)
