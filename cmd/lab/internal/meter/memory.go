package meter

import (
	"context"
	"maps"
	"sync"
	"time"
)

// sampleEvery is how often memory is read: often enough for a peak of a second's load,
// seldom enough that reading costs nothing that counts.
const sampleEvery = 200 * time.Millisecond

// Memory is what groups had in memory, in bytes.
type Memory struct {
	// Peak is each group's most, Sum the most that all had at the same time.
	Peak map[string]int64
	Sum  int64
}

// Sampler watches the memory of groups until it is stopped.
type Sampler struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	memory Memory
	err    error
}

// Watch starts a sampler.
func Watch(ctx context.Context, groups []Group) *Sampler {
	ctx, cancel := context.WithCancel(ctx)
	s := &Sampler{cancel: cancel, memory: Memory{Peak: make(map[string]int64)}}
	s.done.Go(func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			s.sample(groups)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return s
}

func (s *Sampler) sample(groups []Group) {
	now, err := Resident(groups)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = err
		return
	}
	var sum int64
	for name, bytes := range now {
		s.memory.Peak[name] = max(s.memory.Peak[name], bytes)
		sum += bytes
	}
	s.memory.Sum = max(s.memory.Sum, sum)
}

// Stop ends the sampler and returns what it saw. It may be called more than once.
func (s *Sampler) Stop() (Memory, error) {
	s.cancel()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Memory{Peak: maps.Clone(s.memory.Peak), Sum: s.memory.Sum}, s.err
}

// Resident returns what each group has in memory now; groups of one name are one.
func Resident(groups []Group) (map[string]int64, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	now := make(map[string]int64, len(groups))
	for _, g := range groups {
		now[g.Name] += resident(family(all, g.Pid))
	}
	return now, nil
}
