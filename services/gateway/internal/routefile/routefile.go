// Package routefile reads a folder of route files: OpenAPI documents whose operations say
// what answers them, and the policies that they name. A folder is taken as a whole or not
// at all, with everything that is wrong with it at once.
package routefile

import (
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
)

// Runtime is the module of handlers and policies that the gateway brings itself.
const Runtime = "@gateway/runtime"

// Names of corsPolicy that need no definition.
const (
	CORSNone     = "none"
	CORSAnything = "anything-goes"
)

// Set is the route files, policy definitions and CORS definitions of one folder.
type Set struct {
	Files    []*File // in the order of their names
	Policies []PolicyDef
	CORS     []CORSDef
}

// File is one route file.
type File struct {
	Name       string // without a folder: routes.oas.json
	Raw        jsontext.Value
	Version    string       // of OpenAPI
	Operations []*Operation // those that are routed, in the order of the document
	Schemas    *jsonschema.Document
}

// PathMode is how a path is written.
type PathMode string

// The modes of paths.
const (
	OpenAPI    PathMode = "open-api"    // {param}
	URLPattern PathMode = "url-pattern" // :param, :param(regular expression), *
)

// Operation is a method of a path, with what answers it.
type Operation struct {
	File   *File
	Path   string // as it is written
	Mode   PathMode
	Method string // in upper case
	// ID is the operationId, otherwise one that is made of method and path.
	ID                   string
	Summary, Description string
	Tags                 []string
	// Parameters are the path item's and the operation's, of path, query and header. One of
	// the path that the document does not describe is a text.
	Parameters []Parameter
	// Cookies are the parameters that are cookies. They say who calls, so that no arguments are
	// made of them.
	Cookies []Parameter
	// Media are the bodies that requests may have, in the order of the document; none: it speaks of
	// no body. BodyRequired: there must be one.
	Media        []Media
	BodyRequired bool
	// Body is what arguments are sent as; nil: there is no body, or none that they could be.
	Body *Body
	// Outputs point to the schemas of the 2xx answers. Without one for each, or where an answer
	// may be something else than JSON, there are none: nothing is promised of an answer.
	Outputs []string
	// Answer is the media type of the 2xx answers; empty: the document names none, or several.
	Answer   string
	Handler  HandlerDef
	Inbound  []string // names of policies
	Outbound []string
	// CORSPolicy is CORSNone, CORSAnything or a defined name.
	CORSPolicy string
	// MCP is nil when the document has no such object; see Exposed.
	MCP *MCPDef
	// Internal operations are left out of the published document.
	Internal bool
	// Timeout of a call; 0: the gateway's default.
	Timeout time.Duration

	// unsent is why arguments can't be the body; empty: they can, or there is none.
	unsent string
	// upload: the body is a form with files.
	upload    bool
	once      sync.Once
	intake    *intake
	intakeErr error
}

// Parameter is one of path, query, header or cookies.
type Parameter struct {
	Name, In, Description string
	Required              bool
	// Pointer leads to the schema in the file; empty: Schema is not of the document.
	Pointer string
	// Schema is what stands there, references included.
	Schema jsontext.Value
	// Style is how values are written: OpenAPI's words, or one of ours for one with a media type.
	Style   string
	Explode bool
	// Reserved characters are not escaped, where they don't end the value. Empty values are none.
	Reserved, Empty bool
	// Default is the schema's; nil: it has none.
	Default jsontext.Value
}

// Media is one form of a body.
type Media struct {
	// Type is a media type in lower case, or a range such as text/* or */*.
	Type string
	// Pointer leads to the schema in the file; empty: there is none, anything will do.
	Pointer string
	// Fields say how the members of a form are written, where the document does.
	Fields map[string]Field
}

// Field is a member of a form.
type Field struct {
	MediaType string // as the document says; empty: it does not
	Style     string // likewise
	Explode   bool
}

// Delimited reports whether the document says that several values of the field stand in one text.
func (f Field) Delimited() bool { return f.Style != "" && !f.Explode }

// Body is a request body that arguments can be: JSON, or a form without files.
type Body struct {
	Required bool
	// Pointer leads to the schema in the file; empty: there is none, anything will do.
	Pointer string
	Schema  jsontext.Value // what stands there, references included
	// MediaType is application/json or one like it, or that of the form.
	MediaType string
	// Form is how the members are written; nil: the body is JSON.
	Form        *Media
	Description string
}

// HandlerDef says what answers.
type HandlerDef struct {
	Module  string         // Runtime, or the name of $import(./modules/NAME)
	Export  string         // of the module
	Options jsontext.Value // an object, with the environment's values in it; {} when there are none
}

// PolicyDef is a policy that operations name.
type PolicyDef struct {
	Name, Type, Module, Export string
	Options                    jsontext.Value // like HandlerDef's
	Pointer                    string         // into PolicyFile
}

// CORSDef is a policy for requests from pages of other origins.
type CORSDef struct {
	Name                                                          string
	AllowedOrigins, AllowedMethods, AllowedHeaders, ExposeHeaders []string
	MaxAge                                                        int // in seconds
	AllowCredentials                                              bool
	Pointer                                                       string // into PolicyFile
}

// Kinds of MCPDef.
const (
	Tool     = "tool"
	Prompt   = "prompt"
	Resource = "resource"
)

// MCPDef says what an operation is to AI clients.
type MCPDef struct {
	Type                             string // Tool, Prompt or Resource
	Name, Description, URI, MimeType string
	Enabled                          bool
	Meta, Annotations                jsontext.Value // objects; nil: none
}
