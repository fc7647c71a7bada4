package rollout

import (
	"math"
	"sync/atomic"

	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/site"
)

// DefaultMemory is what the tables of all deployments may take in memory, in bytes.
const DefaultMemory = 512 << 20

// sharesOfMemory is how many accounts share the memory: none takes more than one share of it.
const sharesOfMemory = 10

// ShareOf returns what the tables of one account may take of the memory for all, in bytes.
func ShareOf(memory int64) int64 { return memory / sharesOfMemory }

// share is what one account has of a gateway.
type share struct {
	making chan struct{} // one for the table that is being made
	counts *ratelimit.Pool
	used   atomic.Int64 // by its tables, in bytes
}

// share returns the share of an account, and makes it for the first deployment. r.mu is held.
func (r *Rollout) share(account string) *share {
	s := r.shares[account]
	if s == nil {
		most := min(ShareOf(r.options.TableMemory)/ratelimit.BytesOfCount, math.MaxInt32)
		s = &share{making: make(chan struct{}, 1), counts: ratelimit.NewPool(int(most), r.counts)}
		r.shares[account] = s
	}
	return s
}

// use is the memory that a table takes. It is free again when the table was let go of and the last request
// that began with the table has ended.
type use struct {
	bytes   int64
	holders atomic.Int64 // the rollout, and each request
	ended   atomic.Bool
	of      []*atomic.Int64
}

// begin notes that a table takes memory, of the account and of all.
func (r *Rollout) begin(s *share, made *site.Site) *use {
	u := &use{bytes: made.Weight(), of: []*atomic.Int64{&r.used, &s.used}}
	u.holders.Store(1)
	for _, sum := range u.of {
		sum.Add(u.bytes)
	}
	return u
}

func (u *use) hold() { u.holders.Add(1) }

func (u *use) leave() {
	if u.holders.Add(-1) > 0 || u.ended.Swap(true) {
		return
	}
	for _, sum := range u.of {
		sum.Add(-u.bytes)
	}
}

// idle reports whether no request is with the table.
func (u *use) idle() bool { return u.holders.Load() == 1 }

// fits makes room for the next table of a deployment, which has so many bytes, and reports whether there is room. It lets
// go of tables without requests, those used least recently first: tables of the same account until the account's share
// is enough, then tables of all. before is the table that is replaced; nil: there is none. r.mu is held.
func (r *Rollout) fits(of *deployment, before *table, bytes int64) bool {
	share, tables := ShareOf(r.options.TableMemory), r.options.Tables
	if before != nil {
		tables++
		if before.use.idle() {
			bytes -= before.use.bytes
		}
	}
	for of.share.used.Load()+bytes > share {
		if !r.evict(func(d *deployment) bool { return d != of && d.share == of.share }) {
			return false
		}
	}
	for len(r.loaded) >= tables || r.used.Load()+bytes > r.options.TableMemory {
		if !r.evict(func(d *deployment) bool { return d != of }) {
			return false
		}
	}
	return true
}

// evict lets go of one table without requests: of those that some selects, the one used least recently. It reports
// whether there was one.
func (r *Rollout) evict(some func(*deployment) bool) bool {
	var oldest *deployment
	for d := range r.loaded {
		if some(d) && d.table.Load().use.idle() && (oldest == nil || d.used.Load() < oldest.used.Load()) {
			oldest = d
		}
	}
	if oldest == nil {
		return false
	}
	delete(r.loaded, oldest)
	oldest.drop()
	return true
}
