package order

import "context"

const (
	// entrySize is what one delivery that has not ended takes in memory: 164 bytes if ten of a shipment
	// wait, 295 if each is of a shipment of its own, and its number.
	entrySize = 320
	// memoryShare: the deliveries of one account take at most this part of the memory for them.
	memoryShare = 2
	// entriesLeast is how many deliveries of an account may wait whatever the others have.
	entriesLeast = 1024
)

// awaitMemory waits until more deliveries of the account may wait for their turn. Until then its further events
// stay on the bus, and those of other accounts go on.
func (s *session) awaitMemory(ctx context.Context) error {
	if s.waiting() < entriesLeast {
		return nil
	}
	s.m.metrics.full.Inc()
	defer s.m.metrics.full.Dec()
	granted, err := s.memory.Reserve(ctx, entrySize, entrySize)
	if err != nil {
		return err //nolint:wrapcheck // asked to stop
	}
	s.memory.Give(granted)
	return nil
}
