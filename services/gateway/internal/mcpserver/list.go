package mcpserver

import (
	"encoding/base64"
	"slices"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/apikey"
)

// pageSize is how many entries a list shows at once.
const pageSize = 1000

// shelf is one kind of what is exposed, in the order of the configuration.
type shelf struct {
	member  string // of the list's result
	entries []*entry
	byKey   map[string]int // names; of resources, uris
	all     []byte         // the entries as JSON, with commas between them, when one page holds them
}

// entry is one thing that is exposed.
type entry struct {
	key    string
	json   []byte // in the list
	target Target
	// What it is more, by its kind.
	tool     *tool
	prompt   *prompt
	resource *resource
}

// find returns what the caller may use under a name; nil: nothing.
func (s *shelf) find(key string, caller *apikey.Principal) *entry {
	i, ok := s.byKey[key]
	if !ok || !s.entries[i].target.Route.Permits(caller) {
		return nil
	}
	return s.entries[i]
}

// list answers with a page of what the caller may use. What it may not is left out before
// pages are cut, so that a page is never empty because of it.
func (s *server) list(r *route.Request, q *request, from *shelf) *answer {
	first, ok := from.after(q)
	if !ok {
		return invalidParams("The cursor is not one of this list.").answer(q)
	}
	entries := from.entries[first:]
	if at := slices.IndexFunc(entries, func(e *entry) bool { return !e.target.Route.Permits(r.Principal) }); at >= 0 {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool { return !e.target.Route.Permits(r.Principal) })
	}
	page := entries[:min(len(entries), pageSize)]
	size := 0
	for _, e := range page {
		size += len(e.json) + 1
	}
	a := result(q, size)
	a.body = append(a.body, `{"`...)
	a.body = append(a.body, from.member...)
	a.body = append(a.body, `":[`...)
	if len(page) == len(from.entries) && from.all != nil {
		a.body = append(a.body, from.all...)
	} else {
		for i, e := range page {
			if i > 0 {
				a.body = append(a.body, ',')
			}
			a.body = append(a.body, e.json...)
		}
	}
	a.body = append(a.body, ']')
	if len(page) < len(entries) {
		a.body = append(a.body, `,"nextCursor":`...)
		a.body = appendText(a.body, base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].key)))
	}
	return s.close(a, q)
}

// after returns where the page begins that the request asks for.
func (s *shelf) after(q *request) (int, bool) {
	if kind := q.params.Cursor.Kind(); kind == 0 || kind == kindNull {
		return 0, true
	}
	cursor, ok := text(q.params.Cursor)
	if !ok {
		return 0, false
	}
	key, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, false
	}
	at, ok := s.byKey[string(key)]
	return at + 1, ok
}

// close ends a result that clients may keep: not at all without asking again, and for
// nobody else, because what is shown depends on who asks.
func (s *server) close(a *answer, q *request) *answer {
	a.body = append(a.body, `,"ttlMs":0,"cacheScope":"private"`...)
	if q.era == modern {
		a.body = append(a.body, `,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":`...)
		a.body = append(a.body, s.identity...)
		a.body = append(a.body, '}')
	}
	a.body = append(a.body, '}')
	return a.finish()
}
