package order

import "context"

const (
	// entrySize is how much memory a delivery that has not ended takes, with its number: 164 bytes
	// if ten of a shipment wait, 295 if each is of another shipment.
	entrySize = 320
	// memoryShare: the deliveries of one account take at most this part of the memory
	// for deliveries that have not ended.
	memoryShare = 2
	// minEntries is how many deliveries of an account may wait however many other accounts have.
	minEntries = 1024
)

// awaitMemory waits until there is memory for more deliveries of the account that wait for their turn. Until
// then the account's further events stay on the bus. Other accounts are not held up.
func (s *session) awaitMemory(ctx context.Context) error {
	if s.countOpen() < minEntries {
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
