// Package signal has what wakes a goroutine that sleeps until there is something to do.
package signal

// Signal wakes who receives from it. Signals that nobody has received yet fall together into one.
type Signal chan struct{}

// New returns a signal that was not given yet.
func New() Signal { return make(Signal, 1) }

// Give wakes who receives, now or later. Give never waits.
func (s Signal) Give() {
	select {
	case s <- struct{}{}:
	default:
	}
}
