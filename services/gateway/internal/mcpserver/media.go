package mcpserver

import (
	"mime"
	"net/http"
	"strings"
)

const (
	plainText   = "text/plain"
	eventStream = "text/event-stream"
	// native is the type of a route's answer that is a result of MCP already.
	native = "application/vnd.mcp+json"
)

// mediaType returns the Content-Type without parameters; empty: there is none.
func mediaType(header http.Header) string {
	value := header.Get("Content-Type")
	if value == "" {
		return ""
	}
	if name, _, err := mime.ParseMediaType(value); err == nil {
		return name
	}
	name, _, _ := strings.Cut(value, ";")
	return strings.ToLower(strings.TrimSpace(name))
}

// isText reports whether a media type, without parameters, is readable text.
func isText(mediaType string) bool {
	switch mediaType {
	case "", "application/json", "application/xml", "application/javascript", "application/ecmascript",
		"application/yaml", "application/x-yaml", "application/toml", "application/x-ndjson",
		"application/graphql", "application/sql", "application/x-www-form-urlencoded", "application/x-sh":
		return true
	}
	return strings.HasPrefix(mediaType, "text/") || strings.HasSuffix(mediaType, "+json") ||
		strings.HasSuffix(mediaType, "+xml") || strings.HasSuffix(mediaType, "+yaml")
}

// isCoded reports whether an answer has a content coding, so that its bytes are not of its media
// type.
func isCoded(header http.Header) bool {
	for _, value := range header.Values("Content-Encoding") {
		if value != "" && !strings.EqualFold(value, "identity") {
			return true
		}
	}
	return false
}

func isJSONType(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}
