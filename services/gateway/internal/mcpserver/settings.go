package mcpserver

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Default names of a server.
const (
	defaultName    = "MCP Server"
	defaultVersion = "0.0.0"
)

// How long clients may keep lists, in seconds.
const (
	defaultListSeconds = 60
	maxListSeconds     = 7 * 24 * 60 * 60
)

// Reference names an operation to expose.
type Reference struct {
	File string `json:"file"`
	ID   string `json:"id"`
}

// settings are the options of the handler in the route file.
type settings struct {
	Name                string      `json:"name"`
	Version             string      `json:"version"`
	Operations          []Reference `json:"operations"`
	IncludeOutputSchema bool        `json:"includeOutputSchema"`
	// OfferOutputSchema is IncludeOutputSchema for clients whose URL has ?schemas=1.
	OfferOutputSchema        bool `json:"offerOutputSchema"`
	IncludeStructuredContent bool `json:"includeStructuredContent"`
	DebugMode                bool `json:"debugMode"`
	// DefaultTools are the names of the tools that callers with more than 40 see, with tools to
	// find and call the others; empty: all callers see all that they may use.
	DefaultTools []string `json:"defaultTools"`
	// ResourceTool adds a tool that reads resources.
	ResourceTool bool `json:"resourceTool"`
	// MaxResultTokens is the number of tokens at which results of tools are cut.
	MaxResultTokens int `json:"maxResultTokens"`
	// ListSeconds is how long clients may keep lists. PublicLists allows them to share a list
	// between all users.
	ListSeconds int  `json:"listSeconds"`
	PublicLists bool `json:"publicLists"`
	// AllowedOrigins are the origins of pages that may call, in addition to the server's own; "*" is
	// any. AllowedHosts are the names that clients may use for the server. If it is empty, all names
	// are allowed, except over a loopback connection, where only loopback names are.
	AllowedOrigins []string `json:"allowedOrigins"`
	AllowedHosts   []string `json:"allowedHosts"`
}

// References reads the operations that a server exposes from the options of its handler, and returns
// the faults of the options.
func References(options jsontext.Value) ([]Reference, []string) {
	settings, faults := readSettings(options)
	return settings.Operations, faults
}

func readSettings(options jsontext.Value) (settings, []string) {
	s := settings{Name: defaultName, Version: defaultVersion, MaxResultTokens: defaultResult, ListSeconds: defaultListSeconds}
	if len(options) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(options, &s, json.RejectUnknownMembers(true)); err != nil {
		return settings{}, []string{"handler options: " + reason(err)}
	}
	var faults []string
	for i, o := range s.Operations {
		if o.File == "" {
			faults = append(faults, fmt.Sprintf("handler options: /operations/%d has no file", i))
		}
		if o.ID == "" {
			faults = append(faults, fmt.Sprintf("handler options: /operations/%d has no id", i))
		}
	}
	if s.MaxResultTokens < minResult || s.MaxResultTokens > maxResult {
		faults = append(faults, fmt.Sprintf("handler options: /maxResultTokens must be between %d and %d", minResult, maxResult))
	}
	if s.ListSeconds < 0 || s.ListSeconds > maxListSeconds {
		faults = append(faults, fmt.Sprintf("handler options: /listSeconds must be between 0 and %d", maxListSeconds))
	}
	s.Name = cmp.Or(s.Name, defaultName)
	s.Version = cmp.Or(s.Version, defaultVersion)
	return s, faults
}

// reason says where a value can't be read, without the value.
func reason(err error) string {
	if wrong := (*json.SemanticError)(nil); errors.As(err, &wrong) {
		if errors.Is(err, json.ErrUnknownName) {
			return string(wrong.JSONPointer) + " is not an option"
		}
		return string(wrong.JSONPointer) + " has the wrong type"
	}
	if wrong := (*jsontext.SyntacticError)(nil); errors.As(err, &wrong) {
		return string(wrong.JSONPointer) + " is not valid JSON"
	}
	return "they are not valid JSON"
}
