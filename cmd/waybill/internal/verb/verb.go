// Package verb describes what the command line can do with an installation's API: a
// table of nouns and verbs, from which the commands, the requests and the printed tables
// are made.
package verb

import (
	"slices"
	"strings"
)

// Noun is a kind of thing, and what can be done with it.
type Noun struct {
	Name, Short, Long string
	Verbs             []Verb
	Self              *Verb // set: the noun has no verbs but is one itself
}

// Verb is one operation of the API.
type Verb struct {
	Name, Short, Long, Example string
	Method                     string
	// Path has {names}: of arguments, or account. It may have a query.
	Path  string
	Args  []Arg
	Flags []Flag
	// Body says whether a body is sent.
	Body Body
	// Adjust may change the request at the end, for what the table can't express.
	Adjust func(*Request, *Input) error

	// Show says how an answer is printed as a table; without it, the operation has no answer.
	Show View
	// More requests what a table shows besides the answer, and puts it into the rows. What
	// it can't get is left out.
	More func(ask Ask, rows []map[string]any)
	// Once is printed when the answer shows a secret.
	Once string
	// Done is printed when the answer is empty; {names} stand for arguments.
	Done string
	// Wait has --wait: the answer is a job, which is followed until it is over and then shown.
	Wait bool
	// Follow has --follow: the list goes on with what comes and changes.
	Follow bool
	// Judged reports whether the answer names a delivery of which the receiver's answer is waited for, and judged; nil: never.
	Judged func(*Input) bool
	// Confirm is the question that a person must answer before anything is done.
	Confirm string
}

// Ask gets one more thing from the installation; path may have a query.
type Ask func(path string) ([]byte, error)

// Body says whether a verb's request has a body.
type Body int

// The kinds of bodies.
const (
	NoBody   Body = iota
	AnObject      // an object, be it empty
	Optional      // an object when it has any member
)

// Arg is an argument that must be given. One that the path does not name is a member of
// the body.
type Arg struct {
	Word string // as help shows it
	To   string // name in the path, or member
	List string // path of the list whose members are offered for completion
	ID   string // the list's member that is offered
	// Each is the path of another list, for each member of which List is asked: the member's name
	// is what EachTo names in List; empty: List is asked once.
	Each, EachTo string
	File         bool   // names a file
	URL          bool   // is a URL, which on this machine may come without a scheme
	Flag         string // flag that may name it instead; only of the last argument
	// Whole: the operation does not say that there is no such thing, so that its beginning must be made whole before.
	Whole bool
	// Optional: the argument may be left out. Only the last one may be optional. Adjust does the rest.
	Optional bool
}

// Place is where the value of a flag goes.
type Place int

// The places.
const (
	InBody Place = iota
	InQuery
	InVerb // taken by Adjust
)

// Flag is an option of a verb.
type Flag struct {
	Name     string
	Usage    string // a `word` names the value
	Kind     Kind
	In       Place
	To       string // member or parameter; empty: the flag's name
	Choices  []string
	Required bool
	List     string // path of the list of things, one of which the value names by its id
	Former   string // a name that it had before, which still works
}

func (f Flag) target() string {
	if f.To != "" {
		return f.To
	}
	return f.Name
}

// NeedsAccount reports whether the path is an account's.
func (v Verb) NeedsAccount() bool { return strings.Contains(v.Path, "{account}") }

// Nouns returns the whole table.
func Nouns() []Noun {
	return []Noun{
		accounts(), projects(), deployments(), environments(), variables(), buckets(), consumers(), keys(), managers(),
		meters(), features(), plans(), subscriptions(), tunnels(), customDomains(), certificates(),
		webhooks(), signingKeys(), events(), deliveries(), jobs(), statistics(), ending(), audit(), whoAmI(),
	}
}

// Scrolls reports whether the verb is a list that goes on from a cursor.
func (v Verb) Scrolls() bool {
	return slices.ContainsFunc(v.Flags, func(f Flag) bool { return f.Name == "cursor" })
}

// concat joins lists of flags that verbs have in common.
func concat(lists ...[]Flag) []Flag { return slices.Concat(lists...) }
