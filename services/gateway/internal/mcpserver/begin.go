package mcpserver

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// initialize answers the first message of a client of the earlier versions. The version in it has no effect here: each later
// message names its own.
func (s *server) initialize(q *request) *messageAnswer {
	var asked, capabilities, client jsontext.Value
	fields{"protocolVersion": &asked, "capabilities": &capabilities, "clientInfo": &client}.read(q.raw)
	version, named := text(asked)
	if !isOr(named, asked) || !isOr(capabilities.Kind() == kindObject, capabilities) || !isOr(client.Kind() == kindObject, client) {
		return unfitting().answer(q)
	}
	if !slices.Contains(legacyVersions(), version) {
		version = legacyVersions()[0]
	}
	a := beginResult(q, 256)
	// These clients expect notifications of changes on a session's stream. This server has no sessions, so it offers no
	// subscriptions.
	a.body = appendCapabilities(append(a.body, `{"capabilities":`...), false)
	a.body = appendText(append(a.body, `,"protocolVersion":`...), version)
	a.body = append(append(append(a.body, `,"serverInfo":`...), s.identity...), '}')
	return a.finish()
}

// discover answers the first question that a client of 2026-07-28 may ask.
func (s *server) discover(q *request) *messageAnswer {
	a := beginResult(q, 512)
	a.body = append(append(a.body, `{"supportedVersions":`...), supported...)
	a.body = appendCapabilities(append(a.body, `,"capabilities":`...), s.catalog.changes())
	return s.endCacheable(a, q, s.listTTL, s.scope)
}

// appendCapabilities appends the capabilities of the server: it neither announces changes of lists nor sends log messages.
func appendCapabilities(b []byte, subscribe bool) []byte {
	b = append(b, `{"completions":{},"prompts":{},"resources":{`...)
	if subscribe {
		b = append(b, `"subscribe":true`...)
	}
	return append(b, `},"tools":{}}`...)
}

// complete answers a request for completions of an argument. There are never any.
func (s *server) complete(q *request) *messageAnswer {
	var ref, argument, kind, name, value jsontext.Value
	fields{"ref": &ref, "argument": &argument}.read(q.raw)
	fields{"type": &kind}.read(ref)
	fields{"name": &name, "value": &value}.read(argument)
	of, _ := text(kind)
	if of != "ref/prompt" && of != "ref/resource" || name.Kind() != kindText || value.Kind() != kindText {
		return unfitting().answer(q)
	}
	a := beginResult(q, 256)
	a.body = append(a.body, `{"completion":{"values":[]}`...)
	return s.end(a, q)
}

// setLevel accepts the level of the log messages that a client wants. The server sends none.
func (s *server) setLevel(q *request) *messageAnswer {
	var level jsontext.Value
	fields{"level": &level}.read(q.raw)
	if !isOr(level.Kind() == kindText, level) {
		return unfitting().answer(q)
	}
	return empty(q)
}

// empty returns the empty answer to a message that was accepted.
func empty(q *request) *messageAnswer {
	a := beginResult(q, 0)
	a.body = append(a.body, "{}"...)
	return a.finish()
}

// isOr reports whether a member is valid or left out.
func isOr(good bool, member jsontext.Value) bool {
	return good || len(member) == 0 || member.Kind() == kindNull
}

func unfitting() *failure { return invalidParams("The params do not match the method.") }
