// Package input reads request bodies and queries strictly: nothing is guessed, nothing
// is ignored, and every fault of a request is named at once.
package input

import (
	"errors"
	"io"
	"strconv"

	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/problem"
)

// MaxDepth is how deep arrays and objects of a body may be nested.
const MaxDepth = 64

// Check returns what is wrong with a JSON value that is no request's body: no JSON, or
// something that JSON allows and Waybill does not. what is the word for it in faults.
func Check(value []byte, what string) []problem.Fault {
	syntax, faults := scan(value, what)
	if syntax != nil {
		return []problem.Fault{*syntax}
	}
	return faults
}

// scan reads the whole body once. syntax is set when it is not JSON at all: the first
// thing that is wrong, as nothing after it can be trusted. faults has everything that
// JSON allows and Waybill does not. what is the word for the body in faults.
func scan(body []byte, what string) (syntax *problem.Fault, faults []problem.Fault) {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	var s scanner
	for {
		token, err := dec.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && s.ended:
			return nil, s.faults
		case err != nil:
			return &problem.Fault{Detail: syntaxDetail(body, what, err)}, nil
		case s.ended:
			return &problem.Fault{Detail: "The " + what + " has more than one JSON value."}, nil
		}
		if dec.StackDepth() > MaxDepth {
			return nil, append(s.faults, problem.Fault{
				Pointer: string(dec.StackPointer()),
				Detail:  "is nested deeper than " + strconv.Itoa(MaxDepth) + " levels",
			})
		}
		s.take(dec, token)
		s.ended = dec.StackDepth() == 0
	}
}

type scanner struct {
	faults []problem.Fault
	names  []map[string]bool // of the open objects; nil for an array
	ended  bool
}

func (s *scanner) take(dec *jsontext.Decoder, token jsontext.Token) {
	switch token.Kind() {
	case '{':
		s.names = append(s.names, make(map[string]bool))
	case '[':
		s.names = append(s.names, nil)
	case '}', ']':
		s.names = s.names[:len(s.names)-1]
	case '"':
		s.text(dec, token.String())
	}
}

func (s *scanner) text(dec *jsontext.Decoder, text string) {
	if strings.IndexByte(text, 0) >= 0 {
		s.faults = append(s.faults, problem.Fault{Pointer: string(dec.StackPointer()), Detail: "must not have U+0000"})
	}
	if len(s.names) == 0 {
		return
	}
	names := s.names[len(s.names)-1]
	kind, n := dec.StackIndex(dec.StackDepth())
	if names == nil || kind != '{' || n%2 == 0 {
		return // not the name of a member: after a name, n is odd
	}
	if names[text] {
		s.faults = append(s.faults, problem.Fault{Pointer: string(dec.StackPointer()), Detail: "is given twice"})
	}
	names[text] = true
}

func syntaxDetail(body []byte, what string, err error) string {
	if len(bytes.TrimSpace(body)) == 0 {
		return "The " + what + " is empty."
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return "The " + what + " is not valid JSON, from byte " + strconv.FormatInt(syntactic.ByteOffset, 10) + " on."
	}
	return "The " + what + " is not valid JSON: it ends too early."
}

// members returns the members of an object that scan found well-formed.
func members(value []byte) (names []string, values map[string]jsontext.Value, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, nil, err
	}
	values = make(map[string]jsontext.Value)
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, nil, err
		}
		key := name.String()
		member, err := dec.ReadValue()
		if err != nil {
			return nil, nil, err
		}
		if _, repeated := values[key]; !repeated {
			names = append(names, key)
		}
		values[key] = member.Clone()
	}
	return names, values, nil
}

// elements returns the elements of an array that scan found well-formed.
func elements(value []byte) ([]jsontext.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var values []jsontext.Value
	for dec.PeekKind() != ']' {
		element, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		values = append(values, element.Clone())
	}
	return values, nil
}
