// Package policy has the policies that routes name: what is done to a request before its
// handler, and to the answer after it. The kinds of them stand in a Registry, to which a
// program may add its own.
package policy

import (
	"github.com/go-json-experiment/json"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/egress"
)

// Policy is a kind of policy. Definitions name it, and give it options.
type Policy struct {
	// Name is what definitions have as policyType. By custom it ends in -inbound or -outbound.
	Name string
	// Export is what definitions have as handler/export.
	Export string
	// About says in a sentence or two what the policy does. It is for people, in Markdown.
	About string
	// Options is the JSON Schema of an object: what a definition may have as options. Besides
	// the formats of JSON Schema it may name account, bucket, header-name, header-value,
	// network and request-header-name.
	Options string
	// Example is options that make sense, as JSON.
	Example string
	// New makes the policy of a definition whose options match the schema. Faults are what the
	// schema can't say, such as a rule about two options. It must not keep or change options.
	// All routes that name the definition share what New returns.
	New func(options []byte, env Env) (Parts, []Fault)
}

// Env is what policies are made from, besides their options.
type Env struct {
	// Definition is the name that routes call the policy by.
	Definition string
	// Account is the one that the routes belong to.
	Account string
	// Bucket is the one whose keys open the route, unless the policy names another; empty: any.
	Bucket string
	// Uploaded tells that the files are a tenant's, who can't let in the keys of others.
	Uploaded bool
	// Built is as in site.Limits.
	Built bool
	// Egress says which addresses servers that policies ask may have besides private ones.
	Egress *egress.Policy
}

// Parts are the inbound and the outbound part of a policy. Most policies have one of the two.
type Parts struct {
	In  route.Inbound  // nil: it can't run before handlers
	Out route.Outbound // nil: it can't run after them

	// each makes the inbound policy of an operation, where it is another one for each; nil: In
	// is for all.
	each func(op *routefile.Operation) (route.Inbound, []Fault)
}

// Fault is one thing that is wrong with options: where, as a JSON pointer, and what. Detail
// reads on after the place, and never has the value.
type Fault = jsonschema.Violation

// typed makes a New that gets its options read.
func typed[T any](build func(options *T, env *Env) (Parts, []Fault)) func([]byte, Env) (Parts, []Fault) {
	return func(text []byte, env Env) (Parts, []Fault) {
		options, err := read[T](text)
		if err != nil {
			return Parts{}, []Fault{{Detail: "can't be read"}} // the schema allows what the type does not
		}
		return build(options, &env)
	}
}

// read reads options. The schema has held their names to the letter.
func read[T any](text []byte) (*T, error) {
	options := new(T)
	return options, json.Unmarshal(text, options, json.MatchCaseInsensitiveNames(true))
}
