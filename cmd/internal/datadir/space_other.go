//go:build !linux

package datadir

// Space returns false: it is not known on this system.
func Space(string) (free, total int64, ok bool) { return 0, 0, false }
