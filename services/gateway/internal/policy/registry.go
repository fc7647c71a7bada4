package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// Registry is the policies that definitions may name. It may be used by several goroutines.
type Registry struct {
	policies []Policy
	byName   map[string]*entry
}

// entry is a policy with its schema, which is compiled at its first use.
type entry struct {
	Policy

	schema func() (*jsonschema.Schema, error)
}

// NewRegistry returns the gateway's own policies and the added ones. It fails when an added policy
// is incomplete, has a name that is taken, or breaks its own schema.
func NewRegistry(added ...Policy) (*Registry, error) {
	r := &Registry{byName: make(map[string]*entry)}
	for _, p := range ownPolicies() {
		r.add(p)
	}
	for _, p := range added {
		if err := r.check(p); err != nil {
			return nil, fmt.Errorf("add policy %q: %w", p.Name, err)
		}
	}
	return r, nil
}

func (r *Registry) add(p Policy) *entry {
	e := &entry{p, sync.OnceValues(func() (*jsonschema.Schema, error) {
		return jsonschema.Compile([]byte(p.Options), formats()...)
	})}
	r.policies = append(r.policies, p)
	r.byName[p.Name] = e
	return e
}

// check adds the policy of a program, or returns why it can't work.
func (r *Registry) check(p Policy) error {
	switch {
	case p.Name == "" || p.Export == "" || p.New == nil:
		return errors.New("a policy needs Name, Export and New")
	case r.byName[p.Name] != nil:
		return errors.New("there is one of that name already")
	}
	p.Options = cmp.Or(p.Options, noOptions)
	e := r.add(p)
	if _, err := e.schema(); err != nil {
		return fmt.Errorf("read the schema of its options: %w", err)
	}
	if p.Example == "" {
		return nil
	}
	if faults := e.faults([]byte(p.Example)); len(faults) > 0 {
		return fmt.Errorf("its example: %s", strings.Join(sentences(faults), "; "))
	}
	return nil
}

// noOptions is the schema of a policy that has none.
const noOptions = `{"type":"object","additionalProperties":false}`

// Policies returns all policies: the gateway's own, in the order of their names, then the added
// ones, in their order.
func (r *Registry) Policies() []Policy { return slices.Clone(r.policies) }

// Make makes the policy of a definition. faults are sentences about the definition; they
// never repeat the value of an option. The policy is nil when there are any.
func (r *Registry) Make(def *routefile.PolicyDef, env Env) (made *Made, faults []string) {
	e := r.byName[def.Type]
	if e == nil {
		types := make([]string, len(r.policies))
		for i := range r.policies {
			types[i] = r.policies[i].Name
		}
		return nil, []string{"policyType is not one of the gateway's: " + strings.Join(types, ", ")}
	}
	if def.Module != routefile.Runtime {
		faults = append(faults, "handler/module must be $import("+routefile.Runtime+")")
	}
	if def.Export != e.Export {
		faults = append(faults, "handler/export must be "+e.Export+" for the policyType "+def.Type)
	}
	options := def.Options
	if len(options) == 0 {
		options = []byte("{}")
	}
	found := e.faults(options)
	var parts Parts
	if len(found) == 0 {
		env.Definition = def.Name
		parts, found = e.New(options, env)
	}
	if faults = append(faults, sentences(found)...); len(faults) > 0 {
		return nil, faults
	}
	return &Made{parts}, nil
}

// faults checks options against the schema.
func (e *entry) faults(options []byte) []Fault {
	schema, err := e.schema()
	if err != nil {
		return []Fault{{Detail: "can't be checked: " + err.Error()}}
	}
	return schema.Validate(context.Background(), options)
}

func sentences(faults []Fault) []string {
	list := make([]string, len(faults))
	for i, f := range faults {
		list[i] = "handler/options" + f.Pointer + " " + f.Detail
	}
	return list
}

// Made is the policy of a definition.
type Made struct{ parts Parts }

// Inbound returns the step before the handler of an operation; nil: there is none. The faults are
// faults of the operation.
func (m *Made) Inbound(op *routefile.Operation) (in route.Inbound, faults []string) {
	if m.parts.each == nil {
		return m.parts.In, nil
	}
	in, found := m.parts.each(op)
	return in, sentences(found)
}

// Outbound returns the step after handlers; nil: there is none.
func (m *Made) Outbound() route.Outbound { return m.parts.Out }
