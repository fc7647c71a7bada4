// Package policy has the policies that routes name: steps that change or check a request before its
// handler, or the answer after it. A Registry holds the kinds of policies. Programs may add their
// own.
package policy

import (
	"github.com/go-json-experiment/json"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/egress"
)

// Policy is a kind of policy. Definitions name a policy, and give it options.
type Policy struct {
	// Name is the policyType of definitions. By custom it ends in -inbound or -outbound.
	Name string
	// Export is the handler/export of definitions.
	Export string
	// About says in a sentence or two what the policy does. It is for people, in Markdown.
	About string
	// Options is the JSON Schema of a definition's options, which are an object. In addition to the
	// formats of JSON Schema, it may name account, bucket, header-name, header-value, network and
	// request-header-name.
	Options string
	// Example is options that make sense, as JSON.
	Example string
	// New makes the policy of a definition with options that match the schema. Faults are for rules
	// that the schema can't express, such as a rule about two options. New must not keep or change
	// options. All routes that name the definition share the result of New.
	New func(options []byte, env Env) (Parts, []Fault)
}

// Env has everything that policies are made from, except their options.
type Env struct {
	// Definition is the name that routes call the policy by.
	Definition string
	// Account is the one that the routes belong to.
	Account string
	// Bucket is the bucket of the keys that the route accepts, unless the policy names another one;
	// empty: any.
	Bucket string
	// Uploaded says that a tenant has uploaded the files. A tenant can't let in the keys of other
	// accounts.
	Uploaded bool
	// Built is as in site.Limits.
	Built bool
	// Egress says which addresses the servers that policies call may have in addition to private
	// ones.
	Egress *egress.Policy
}

// Parts are the inbound and the outbound part of a policy. Most policies have one of the two.
type Parts struct {
	In  route.Inbound  // nil: the policy can't run before handlers
	Out route.Outbound // nil: the policy can't run after handlers

	// each makes the inbound policy for an operation, if each operation needs its own; nil: In is
	// for all.
	each func(op *routefile.Operation) (route.Inbound, []Fault)
}

// Fault is one fault of options: its place, as a JSON pointer, and a description. Detail continues
// a sentence that begins with the place, and never contains the value.
type Fault = jsonschema.Violation

// typed makes a New that gets its options read.
func typed[T any](build func(options *T, env *Env) (Parts, []Fault)) func([]byte, Env) (Parts, []Fault) {
	return func(text []byte, env Env) (Parts, []Fault) {
		options, err := read[T](text)
		if err != nil {
			return Parts{}, []Fault{{Detail: "can't be read"}} // the schema allows something that the type does not
		}
		return build(options, &env)
	}
}

// read reads options. The schema has held their names to the letter.
func read[T any](text []byte) (*T, error) {
	options := new(T)
	return options, json.Unmarshal(text, options, json.MatchCaseInsensitiveNames(true))
}
