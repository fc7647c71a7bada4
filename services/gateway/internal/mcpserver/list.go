package mcpserver

import (
	"encoding/base64"
	"slices"
	"strconv"

	"waybill.dev/services/gateway/internal/route"
)

// pageSize is how many entries a list shows at once.
const pageSize = 1000

// shelf holds all entries of one kind, in the order of the configuration.
type shelf struct {
	member  string // member of the list's result
	entries []*entry
	byKey   map[string]int // by name; resources by uri
	all     []byte         // the entries as JSON, separated by commas, when they fit on one page
}

// entry is one exposed tool, prompt, resource or template.
type entry struct {
	key    string
	json   []byte // the entry in the list
	target Target
	// Further data, by kind.
	tool     *tool
	prompt   *prompt
	resource *resource
}

// shown returns the entry as JSON for a list.
func (e *entry) shown(schemas bool) []byte {
	if schemas && e.tool != nil && e.tool.withOutput != nil {
		return e.tool.withOutput
	}
	return e.json
}

// find returns the entry with a name if the caller may use it, otherwise nil.
func (s *shelf) find(key string, r *route.Request) *entry {
	i, ok := s.byKey[key]
	if !ok || !s.entries[i].sees(r) {
		return nil
	}
	return s.entries[i]
}

// list answers with a page of the entries that the caller may use. The others are left out before
// the list is divided into pages, so that no page is empty because of them.
func (s *server) list(r *route.Request, q *request, from *shelf) *messageAnswer {
	first, ok := from.pageStart(q)
	if !ok {
		return invalidParams("The cursor is not one of this list.").answer(q)
	}
	entries := from.entries
	sees := seeing(r)
	unseen := func(e *entry) bool { return !sees(e) }
	if slices.ContainsFunc(entries, unseen) {
		entries = slices.DeleteFunc(slices.Clone(entries), unseen)
	}
	var own []*ownTool
	if from == &s.catalog.tools {
		var searches bool
		entries, searches = s.defaultTools(r, entries)
		if first == 0 {
			own = slices.DeleteFunc(slices.Clone(s.own), func(t *ownTool) bool { return !searches && t.name != readResource })
		}
	}
	if begin := slices.IndexFunc(entries, func(e *entry) bool { return from.byKey[e.key] >= first }); begin >= 0 {
		entries = entries[begin:]
	} else {
		entries = nil
	}
	page := entries[:min(len(entries), pageSize)]
	schemas := s.shows(r)
	size := 0
	for _, e := range page {
		size += len(e.shown(schemas)) + 1
	}
	a := beginResult(q, size)
	a.body = append(a.body, `{"`...)
	a.body = append(a.body, from.member...)
	a.body = append(a.body, `":[`...)
	begin := len(a.body)
	for _, tool := range own {
		a.body = append(append(a.body, tool.json...), ',')
	}
	if len(page) == len(from.entries) && from.all != nil && !schemas {
		a.body = append(append(a.body, from.all...), ',')
	} else {
		for _, e := range page {
			a.body = append(append(a.body, e.shown(schemas)...), ',')
		}
	}
	a.body = append(a.body[:max(begin, len(a.body)-1)], ']')
	if len(page) < len(entries) {
		a.body = append(a.body, `,"nextCursor":`...)
		a.body = appendText(a.body, base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].key)))
	}
	return s.endCacheable(a, q, s.listTTL, s.scope)
}

// pageStart returns the index at which the requested page begins.
func (s *shelf) pageStart(q *request) (int, bool) {
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

// private is the scope of results that depend on the caller. Clients reuse them for no other
// caller.
const private = "private"

// endCacheable ends a result that clients may keep for so many milliseconds, in a scope.
func (s *server) endCacheable(a *messageAnswer, q *request, ttl int, scope string) *messageAnswer {
	a.body = strconv.AppendInt(append(a.body, `,"ttlMs":`...), int64(ttl), 10)
	a.body = append(append(append(a.body, `,"cacheScope":"`...), scope...), '"')
	return s.end(a, q)
}

// end ends a result.
func (s *server) end(a *messageAnswer, q *request) *messageAnswer {
	if q.era == modern {
		a.body = append(a.body, `,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":`...)
		a.body = append(a.body, s.identity...)
		a.body = append(a.body, '}')
	}
	a.body = append(a.body, '}')
	return a.finish()
}
