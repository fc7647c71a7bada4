package mcpserver

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What a server is called when its options don't say.
const (
	defaultName    = "MCP Server"
	defaultVersion = "0.0.0"
)

// Reference names an operation to expose.
type Reference struct {
	File string `json:"file"`
	ID   string `json:"id"`
}

// settings are the options of the handler in the route file.
type settings struct {
	Name                     string      `json:"name"`
	Version                  string      `json:"version"`
	Operations               []Reference `json:"operations"`
	IncludeOutputSchema      bool        `json:"includeOutputSchema"`
	IncludeStructuredContent bool        `json:"includeStructuredContent"`
	DebugMode                bool        `json:"debugMode"`
	// AllowedOrigins are the origins of pages that may call, besides the server's own; "*"
	// is any. AllowedHosts are the names that clients may use for the server; without any,
	// all names will do, except over a loopback connection, where only loopback names do.
	AllowedOrigins []string `json:"allowedOrigins"`
	AllowedHosts   []string `json:"allowedHosts"`
}

// References reads which operations a server exposes from the options of its handler, and
// says what is wrong with them.
func References(options jsontext.Value) ([]Reference, []string) {
	settings, faults := readSettings(options)
	return settings.Operations, faults
}

func readSettings(options jsontext.Value) (settings, []string) {
	s := settings{Name: defaultName, Version: defaultVersion}
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
	if s.Name == "" {
		s.Name = defaultName
	}
	if s.Version == "" {
		s.Version = defaultVersion
	}
	return s, faults
}

// reason tells where a value can't be read, without the value.
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
