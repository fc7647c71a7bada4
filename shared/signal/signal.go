// Package signal has a signal that wakes a goroutine which sleeps until there is work.
package signal

// Signal wakes its receiver. Signals that were not received yet become one.
type Signal chan struct{}

// New returns a signal that has not been given.
func New() Signal { return make(Signal, 1) }

// Give wakes the receiver, now or when it next receives. Give never waits.
func (s Signal) Give() {
	select {
	case s <- struct{}{}:
	default:
	}
}
