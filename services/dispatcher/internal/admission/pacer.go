package admission

import (
	"sync"
	"time"
)

// Pacer spreads bursts of jobs for failing webhooks. One event for a hundred of them costs tens of
// milliseconds of processor time at once: failed connections and handshakes, schedules, holds,
// records. Healthy deliveries and the acceptance of events would wait for that.
type Pacer struct {
	mu      sync.Mutex
	waiting []func()
	ticking bool
}

// Add calls begin at once if nothing waits, otherwise in its turn.
func (p *Pacer) Add(begin func()) {
	p.mu.Lock()
	if p.ticking {
		p.waiting = append(p.waiting, begin)
		p.mu.Unlock()
		return
	}
	p.ticking = true
	p.mu.Unlock()
	begin()
	go p.run()
}

// run starts waiting jobs until none is left.
func (p *Pacer) run() {
	ticker := time.NewTicker(paceEvery)
	defer ticker.Stop()
	for range ticker.C {
		jobs := p.takeNext()
		if len(jobs) == 0 {
			return
		}
		for _, begin := range jobs {
			begin()
		}
	}
}

func (p *Pacer) takeNext() []func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.waiting), 1+len(p.waiting)/int(paceOver/paceEvery))
	jobs := p.waiting[:n:n]
	p.waiting = p.waiting[n:]
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
	p.ticking = n > 0
	return jobs
}

// Flush begins all waiting jobs at once.
func (p *Pacer) Flush() {
	p.mu.Lock()
	jobs := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, begin := range jobs {
		begin()
	}
}

// Waiting is the number of jobs that wait for their turn.
func (p *Pacer) Waiting() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(len(p.waiting))
}
