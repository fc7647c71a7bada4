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

// Set is what a folder holds.
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
	// ID is the operationId, else one that is made of method and path.
	ID                   string
	Summary, Description string
	Tags                 []string
	// Parameters are the path item's and the operation's, of path, query and header. One of
	// the path that the document does not describe is a text.
	Parameters []Parameter
	// Body is the JSON body of requests; nil: there is none.
	Body *Body
	// Output points to the schema of the first 2xx answer in JSON; empty: none.
	Output   string
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

	otherBody bool // a body is required that is no JSON
	once      sync.Once
	intake    *intake
	intakeErr error
}

// Parameter is one of path, query or header.
type Parameter struct {
	Name, In, Description string
	Required              bool
	// Pointer leads to the schema in the file; empty: Schema is not of the document.
	Pointer string
	// Schema is what stands there, references included.
	Schema jsontext.Value
	// Style is how values are written: OpenAPI's words, or "json" for one with a media type.
	Style   string
	Explode bool
	// Default is the schema's; nil: it has none.
	Default jsontext.Value

	types, items []string // that the schema names, of the value and of its elements
	members      []property
}

// property is a member of a parameter that is an object.
type property struct {
	name  string
	types []string
}

// Body is a JSON request body.
type Body struct {
	Required bool
	// Pointer leads to the schema in the file; empty: there is none, anything will do.
	Pointer string
	Schema  jsontext.Value // what stands there, references included
	// MediaType is application/json or one like it.
	MediaType   string
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
