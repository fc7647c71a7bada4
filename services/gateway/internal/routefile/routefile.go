// Package routefile reads a folder of route files: OpenAPI documents with operations that name
// their handlers, and the policies that they use. A folder is accepted as a whole or not at all,
// and all of its faults are reported at once.
package routefile

import (
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
)

// Runtime is the module of the gateway's own handlers and policies.
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
	Version    string       // OpenAPI version
	Operations []*Operation // operations with a route, in the order of the document
	Schemas    *jsonschema.Document
}

// PathMode is how a path is written.
type PathMode string

// The modes of paths.
const (
	OpenAPI    PathMode = "open-api"    // {param}
	URLPattern PathMode = "url-pattern" // :param, :param(regular expression), *
)

// Operation is a method of a path, with its handler.
type Operation struct {
	File   *File
	Path   string // as written
	Mode   PathMode
	Method string // in upper case
	// ID is the operationId, or an id generated from method and path.
	ID                   string
	Summary, Description string
	Tags                 []string
	// Parameters are the parameters of the path item and of the operation, in path, query and
	// header. A path parameter that the document does not describe is a text.
	Parameters []Parameter
	// Cookies are the parameters in cookies. They identify the caller, so arguments never set them.
	Cookies []Parameter
	// Media are the bodies that requests may have, in the order of the document; none: no body is
	// described. BodyRequired: there must be one.
	Media        []Media
	BodyRequired bool
	// Body is the body in which arguments are sent; nil: there is no body, or none that can hold
	// arguments.
	Body *Body
	// Outputs point to the schemas of the 2xx answers. If an answer has no schema, or may have
	// another format than JSON, the list is empty: nothing is promised about answers.
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
	// Internal says that the published document leaves the operation out.
	Internal bool
	// Timeout of a call; 0: the gateway's default.
	Timeout time.Duration

	// unsent is the reason why arguments can't be the body; empty: they can, or there is no body.
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
	// Schema is the schema at Pointer, references included.
	Schema jsontext.Value
	// Style is how values are written: a style of OpenAPI, or one of ours for a parameter with a
	// media type.
	Style   string
	Explode bool
	// Reserved: reserved characters are not escaped, unless they would end the value. Empty: a
	// parameter without a value counts as missing.
	Reserved, Empty bool
	// Default is the default in the schema; nil: none.
	Default jsontext.Value
}

// Media is one media type of a body.
type Media struct {
	// Type is a media type in lower case, or a range such as text/* or */*.
	Type string
	// Pointer leads to the schema in the file; empty: there is no schema, and anything is allowed.
	Pointer string
	// Fields say how the members of a form are written, where the document does.
	Fields map[string]Field
}

// Field is a member of a form.
type Field struct {
	MediaType string // from the document; empty: none given
	Style     string // from the document; empty: none given
	Explode   bool
}

// Delimited reports whether the document says that several values of the field are written in one
// text.
func (f Field) Delimited() bool { return f.Style != "" && !f.Explode }

// Body is a request body that arguments can be: JSON, or a form without files.
type Body struct {
	Required bool
	// Pointer leads to the schema in the file; empty: there is no schema, and anything is allowed.
	Pointer string
	Schema  jsontext.Value // the schema at Pointer, references included
	// MediaType is application/json or another JSON type, or that of the form.
	MediaType string
	// Form is how the members are written; nil: the body is JSON.
	Form        *Media
	Description string
}

// HandlerDef names a handler.
type HandlerDef struct {
	Module  string         // Runtime, or the name of $import(./modules/NAME)
	Export  string         // export of the module
	Options jsontext.Value // an object with the environment's values inserted; {} when there are none
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

// MCPDef describes an operation to AI clients.
type MCPDef struct {
	Type                             string // Tool, Prompt or Resource
	Name, Description, URI, MimeType string
	Enabled                          bool
	Meta, Annotations                jsontext.Value // objects; nil: none
}
