package egress

import (
	"sync"
	"time"
)

// pool keeps idle connections for later attempts.
type pool struct {
	maxIdle int // in all
	timeout time.Duration

	mu     sync.Mutex
	idle   map[poolKey][]*wire // the newest last
	count  int
	closed bool
	sweep  *time.Timer // nil: no connection is idle
}

func newPool(o Options) *pool {
	return &pool{maxIdle: o.MaxIdle, timeout: o.IdleTimeout, idle: make(map[poolKey][]*wire)}
}

// takeIdle returns an idle connection that its receiver has not closed; nil: there is none.
func (p *pool) takeIdle(at poolKey) *wire {
	for {
		w := p.pop(at)
		if w == nil || (time.Since(w.since) < p.timeout && isQuiet(w.conn)) {
			return w
		}
		_ = w.conn.Close()
	}
}

func (p *pool) pop(at poolKey) *wire {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[at]
	if len(list) == 0 {
		return nil
	}
	w := list[len(list)-1]
	list[len(list)-1] = nil
	p.idle[at] = list[:len(list)-1]
	p.count--
	return w
}

// put keeps a connection, or closes it when there are enough.
func (p *pool) put(w *wire) {
	w.since = time.Now()
	p.mu.Lock()
	kept := !p.closed && p.count < p.maxIdle
	if kept {
		p.idle[w.place] = append(p.idle[w.place], w)
		p.count++
		if p.sweep == nil {
			p.sweep = time.AfterFunc(p.timeout/2, p.closeIdle)
		}
	}
	p.mu.Unlock()
	if !kept {
		_ = w.conn.Close()
	}
}

// closeIdle closes connections that have been idle for too long, and schedules itself again while
// others are idle.
func (p *pool) closeIdle() {
	before := time.Now().Add(-p.timeout)
	var old []*wire
	p.mu.Lock()
	for at, list := range p.idle {
		n := 0
		for n < len(list) && list[n].since.Before(before) {
			n++
		}
		old = append(old, list[:n]...)
		if n == len(list) {
			delete(p.idle, at)
			continue
		}
		clear(list[copy(list, list[n:]):])
		p.idle[at] = list[:len(list)-n]
	}
	p.count -= len(old)
	p.sweep = nil
	if len(p.idle) > 0 {
		p.sweep = time.AfterFunc(p.timeout/2, p.closeIdle)
	}
	p.mu.Unlock()
	for _, w := range old {
		_ = w.conn.Close()
	}
}

// close closes the idle connections. Connections that are put later are closed, too.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.count, p.closed = make(map[poolKey][]*wire), 0, true
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
	p.mu.Unlock()
	for _, list := range idle {
		for _, w := range list {
			_ = w.conn.Close()
		}
	}
}
