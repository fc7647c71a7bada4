package rollout

import (
	"cmp"
	"math"
	"sync/atomic"

	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/site"
)

// DefaultMemory is how much memory the tables of all deployments may take, in bytes.
const DefaultMemory = 512 << 20

// sharesOfMemory is how many accounts share the memory: none takes more than one share of it.
const sharesOfMemory = 10

// ShareOf returns how much of the memory for all tables those of one account may take, in bytes.
func ShareOf(memory int64) int64 { return memory / sharesOfMemory }

// share is the part of a gateway that one account uses.
type share struct {
	making chan struct{} // one for the table that is being made
	counts *ratelimit.Pool
	used   atomic.Int64 // by the account's tables, in bytes
	loaded int          // deployments that have a table; Rollout.mu is held
}

// share returns the share of an account. The first deployment of the account creates it. r.mu is held.
func (r *Rollout) share(account string) *share {
	s := r.shares[account]
	if s == nil {
		most := min(ShareOf(r.options.TableMemory)/ratelimit.BytesOfCount, math.MaxInt32)
		s = &share{making: make(chan struct{}, 1), counts: ratelimit.NewPool(int(most), r.counts)}
		r.shares[account] = s
	}
	return s
}

// use is the memory that a table takes. The memory is free again when the table was dropped and the last request that
// uses it has ended.
type use struct {
	bytes   int64
	holders atomic.Int64 // the rollout, and each request
	ended   atomic.Bool
	shares  []*atomic.Int64
}

// begin notes that a table takes memory, of the account and of all.
func (r *Rollout) begin(s *share, made *site.Site) *use {
	u := &use{bytes: made.Weight(), shares: []*atomic.Int64{&r.used, &s.used}}
	u.holders.Store(1)
	for _, sum := range u.shares {
		sum.Add(u.bytes)
	}
	return u
}

func (u *use) hold() { u.holders.Add(1) }

func (u *use) leave() {
	if u.holders.Add(-1) > 0 || u.ended.Swap(true) {
		return
	}
	for _, sum := range u.shares {
		sum.Add(-u.bytes)
	}
}

// idle reports whether no request is with the table.
func (u *use) idle() bool { return u.holders.Load() == 1 }

// makeRoom makes room for the next table of a deployment, which has so many bytes, and reports whether there is room. It
// drops tables: first of the same account until the account is within its share, then of the account with the most
// memory. before is the table that is replaced; nil: there is none. r.mu is held.
func (r *Rollout) makeRoom(of *deployment, before *table, bytes int64) bool {
	if before != nil && before.use.idle() {
		bytes -= before.use.bytes
	}
	memory := func(s *share) int64 { return s.used.Load() + of.addedBytes(s, bytes) }
	idle := func(d *deployment) bool { return d != of && d.table.Load().use.idle() }
	for of.share.used.Load()+bytes > ShareOf(r.options.TableMemory) {
		if !r.evict(memory, func(d *deployment) bool { return d.share == of.share && idle(d) }) {
			return false
		}
	}
	for r.used.Load()+bytes > r.options.TableMemory {
		if !r.evict(memory, idle) {
			return false
		}
	}
	// Busy tables that were dropped do not count as tables: only their memory counts until they end.
	for before == nil && len(r.loaded) >= r.options.Tables {
		r.evict(func(s *share) int64 { return int64(s.loaded) + of.addedBytes(s, 1) }, func(*deployment) bool { return true })
	}
	return true
}

// addedBytes returns how many bytes the next table of a deployment adds to a share.
func (d *deployment) addedBytes(s *share, next int64) int64 {
	if s == d.share {
		return next
	}
	return 0
}

// evict drops one of the tables that some selects: of the account with the highest has, the one used least recently. It
// reports whether there was one.
func (r *Rollout) evict(has func(*share) int64, some func(*deployment) bool) bool {
	var first *deployment
	for d := range r.loaded {
		if some(d) && (first == nil || cmp.Or(cmp.Compare(has(first.share), has(d.share)), cmp.Compare(d.used.Load(), first.used.Load())) < 0) {
			first = d
		}
	}
	if first == nil {
		return false
	}
	r.unload(first)
	return true
}

// unload drops the table of a deployment that has one. r.mu is held.
func (r *Rollout) unload(d *deployment) {
	delete(r.loaded, d)
	d.share.loaded--
	d.drop()
}
