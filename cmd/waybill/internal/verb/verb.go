// Package verb describes the commands for an installation's API: a table of nouns and verbs, from which the commands, the
// requests and the printed tables are made.
package verb

import (
	"slices"
	"strings"
)

// Noun is a kind of thing, with its verbs.
type Noun struct {
	Name, Short, Long string
	Verbs             []Verb
	Self              *Verb // set: the noun is itself a verb, and has no others
}

// Verb is one operation of the API.
type Verb struct {
	Name, Short, Long, Example string
	Method                     string
	// Path contains {names} of arguments, or {account}. It may have a query.
	Path  string
	Args  []Arg
	Flags []Flag
	// Body says whether a body is sent.
	Body Body
	// Adjust may change the finished request, for rules that the table can't express.
	Adjust func(*Request, *Input) error

	// Show says how an answer is printed as a table; without it, the operation has no answer.
	Show View
	// More reads further data for a table and adds it to the rows. Data that it can't read is left out.
	More func(ask Ask, rows []map[string]any)
	// Once is printed when the answer shows a secret.
	Once string
	// Done is printed when the answer is empty; {names} are replaced by arguments.
	Done string
	// Wait adds --wait: the answer is a job, which is followed until it has ended and then shown.
	Wait bool
	// Follow adds --follow: new and changed entries of the list are printed as they come.
	Follow bool
	// Judged reports whether the answer names a delivery, and the command has to wait for the receiver's answer and judge it;
	// nil: never.
	Judged func(*Input) bool
	// Confirm is the question that a person must answer before anything is done.
	Confirm string
}

// Ask reads further data from the installation; path may have a query.
type Ask func(path string) ([]byte, error)

// Body says whether a verb's request has a body.
type Body int

// The kinds of bodies.
const (
	NoBody   Body = iota
	AnObject      // an object, which may be empty
	Optional      // an object, if it has members
)

// Arg is a required argument. If the path does not contain it, it is a member of the body.
type Arg struct {
	Word string // as help shows it
	To   string // name in the path, or member
	List string // path of the list for completion
	ID   string // the list's member that completion offers
	// Each is the path of another list. List is read for each of its entries: EachTo is the name in List that the entry's name
	// replaces; empty: List is read once.
	Each, EachTo string
	File         bool   // names a file
	URL          bool   // a URL, which may have no scheme if it is on this machine
	Flag         string // flag that may replace the argument; only for the last one
	// Whole: the operation does not report that the thing does not exist, so the beginning of an id must be completed before.
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
	List     string // path of the list with the thing that the value names by its id
	Former   string // a former name that still works
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

// Scrolls reports whether the verb is a list with a cursor.
func (v Verb) Scrolls() bool {
	return slices.ContainsFunc(v.Flags, func(f Flag) bool { return f.Name == "cursor" })
}

// concat joins lists of flags that verbs have in common.
func concat(lists ...[]Flag) []Flag { return slices.Concat(lists...) }
