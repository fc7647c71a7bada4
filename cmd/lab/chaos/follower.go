package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
)

// follower reads a webhook's feed as a receiver does that keeps its cursor under a name. After
// every failure it begins again at the cursor that is kept, as if it had been started again.
type follower struct {
	api     *stack.Client
	webhook string
	name    string
	most    int // events in a page

	cursor string
	place  place
	read   int            // events before the cursor
	ids    []string       // of all events that were ever read, in their order
	kept   map[string]int // cursor → events before it
	done   bool           // the page before said that there is nothing more

	pages, failures, again int
	faults                 []string
}

func newFollower(api *stack.Client, webhook, name string, most int) *follower {
	return &follower{api: api, webhook: webhook, name: name, most: most, kept: map[string]int{"": 0}}
}

// keepEvery is after how many pages the cursor is kept: those since then are read again after a
// failure.
const keepEvery = 3

// step reads a page and sometimes keeps its cursor.
func (r *follower) step(ctx context.Context, wait time.Duration) {
	if err := r.page(ctx, wait); err != nil && ctx.Err() == nil {
		r.failures++
		r.begin(ctx)
	}
}

func (r *follower) page(ctx context.Context, wait time.Duration) error {
	query := url.Values{"limit": {strconv.Itoa(1 + rand.IntN(r.most))}, "wait": {strconv.Itoa(int(wait.Seconds()))}}
	if r.cursor != "" {
		query.Set("after", r.cursor)
	}
	page, err := r.api.Feed(ctx, r.webhook, query)
	if err != nil {
		if len(r.faults) < shown && !r.passing(err) {
			r.faults = append(r.faults, fmt.Sprintf("the feed can't be read: %v", err))
		}
		return err
	}
	r.pages++
	r.done = page.Done
	for _, e := range page.Data {
		r.take(e.ID)
	}
	if err := r.move(page.Cursor, len(page.Data) > 0); err != nil {
		r.faults = append(r.faults, err.Error())
	}
	if r.pages%keepEvery != 0 {
		return nil
	}
	return r.api.SetCursor(ctx, r.webhook, r.name, page.Cursor)
}

// passing reports whether an error is one that a dead or starting API explains.
func (*follower) passing(err error) bool {
	return !client.IsStatus(err, 400) && !client.IsStatus(err, 404) && !client.IsStatus(err, 410)
}

// take notes an event. One that was read before must be at the same place again.
func (r *follower) take(id string) {
	switch {
	case r.read == len(r.ids):
		r.ids = append(r.ids, id)
	case r.ids[r.read] != id && len(r.faults) < shown:
		r.faults = append(r.faults, fmt.Sprintf("event %d of the feed was %s and is %s", r.read, r.ids[r.read], id))
	default:
		r.again++
	}
	r.read++
}

// move goes on to a cursor, whose place must be behind the one before.
func (r *follower) move(cursor string, events bool) error {
	next, err := placeOf(cursor)
	if err != nil {
		return err
	}
	before := r.place
	r.cursor, r.place, r.kept[cursor] = cursor, next, r.read
	if c := next.compare(before); c < 0 || c == 0 && events {
		return fmt.Errorf("the cursor went from %+v to %+v with event %d", before, next, r.read)
	}
	return nil
}

// begin goes on at the cursor that is kept under the name.
func (r *follower) begin(ctx context.Context) {
	for ctx.Err() == nil {
		cursor, err := r.api.Cursor(ctx, r.webhook, r.name)
		if err != nil {
			_ = wait(ctx, 50*time.Millisecond, 100*time.Millisecond)
			continue
		}
		read, known := r.kept[cursor]
		if !known {
			r.faults = append(r.faults, "the cursor that is kept was never set")
			return
		}
		r.cursor, r.read = cursor, read
		r.place, _ = placeOf(cursor)
		return
	}
}

// place is where a cursor is in the order of commits.
type place struct {
	Xact  int64  `json:"x"`
	Time  int64  `json:"t"`
	Place int    `json:"p"`
	ID    string `json:"i"`
}

func (a place) compare(b place) int {
	return cmp.Or(cmp.Compare(a.Xact, b.Xact), cmp.Compare(a.Time, b.Time), cmp.Compare(a.Place, b.Place), cmp.Compare(a.ID, b.ID))
}

// placeOf reads a cursor, which is opaque to all others: JSON with a checksum behind it.
func placeOf(cursor string) (p place, err error) {
	if cursor == "" {
		return place{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw[:max(0, len(raw)-crc32.Size)], &p)
	}
	if err != nil {
		return place{}, fmt.Errorf("read the cursor %q: %w", cursor, err)
	}
	return p, nil
}
