package mcpserver

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// initialize answers the message that a client of the earlier versions begins with. Which version
// is spoken has no effect here: each later message names its own.
func (s *server) initialize(q *request) *answer {
	var asked, capabilities, client jsontext.Value
	fields{"protocolVersion": &asked, "capabilities": &capabilities, "clientInfo": &client}.read(q.raw)
	version, named := text(asked)
	if !isOr(named, asked) || !isOr(capabilities.Kind() == kindObject, capabilities) || !isOr(client.Kind() == kindObject, client) {
		return unfitting().answer(q)
	}
	if !slices.Contains(legacyVersions(), version) {
		version = legacyVersions()[0]
	}
	a := result(q, 256)
	// These clients expect news of changes on a session's stream. This server has no sessions, so it offers no subscriptions.
	a.body = appendCapabilities(append(a.body, `{"capabilities":`...), false)
	a.body = appendText(append(a.body, `,"protocolVersion":`...), version)
	a.body = append(append(append(a.body, `,"serverInfo":`...), s.identity...), '}')
	return a.finish()
}

// discover answers what a client of 2026-07-28 can ask first.
func (s *server) discover(q *request) *answer {
	a := result(q, 512)
	a.body = append(append(a.body, `{"supportedVersions":`...), supported...)
	a.body = appendCapabilities(append(a.body, `,"capabilities":`...), s.catalog.changes())
	return s.endCacheable(a, q, s.listTTL, s.scope)
}

// appendCapabilities appends what the server can do. Nothing is promised that is not kept: no changes
// of lists are announced, and no log messages are sent.
func appendCapabilities(b []byte, subscribe bool) []byte {
	b = append(b, `{"completions":{},"prompts":{},"resources":{`...)
	if subscribe {
		b = append(b, `"subscribe":true`...)
	}
	return append(b, `},"tools":{}}`...)
}

// complete answers a request for proposals for an argument, of which there are none.
func (s *server) complete(q *request) *answer {
	var ref, argument, kind, name, value jsontext.Value
	fields{"ref": &ref, "argument": &argument}.read(q.raw)
	fields{"type": &kind}.read(ref)
	fields{"name": &name, "value": &value}.read(argument)
	of, _ := text(kind)
	if of != "ref/prompt" && of != "ref/resource" || name.Kind() != kindText || value.Kind() != kindText {
		return unfitting().answer(q)
	}
	a := result(q, 256)
	a.body = append(a.body, `{"completion":{"values":[]}`...)
	return s.end(a, q)
}

// setLevel answers a client that says which log messages it wants. It gets none.
func (s *server) setLevel(q *request) *answer {
	var level jsontext.Value
	fields{"level": &level}.read(q.raw)
	if !isOr(level.Kind() == kindText, level) {
		return unfitting().answer(q)
	}
	return empty(q)
}

// empty answers that a message was taken.
func empty(q *request) *answer {
	a := result(q, 0)
	a.body = append(a.body, "{}"...)
	return a.finish()
}

// isOr reports whether a member is as it must be, or is left out.
func isOr(good bool, member jsontext.Value) bool {
	return good || len(member) == 0 || member.Kind() == kindNull
}

func unfitting() *failure { return invalidParams("The params do not match the method.") }
