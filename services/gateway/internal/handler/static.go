package handler

import (
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
)

const maxHeaders = 100

var (
	errOutside  = errors.New("must be the relative path of a file in the folder of the route files")
	errMissing  = errors.New("is not a readable file in the folder of the route files")
	errLongFile = fmt.Errorf("is longer than %d bytes", route.MaxResponse)
)

// newStatic makes the handler that answers with text, JSON or a file.
func newStatic(options *input.Form, op *routefile.Operation, env *Env) route.Handler {
	header := make(http.Header)
	pairs, _ := options.Pairs("headers", maxHeaders)
	for _, pair := range pairs {
		if err := route.CheckHeader(pair.Name, pair.Value); err != nil {
			options.Fault(err.Error(), "headers", pair.Name)
		}
		if err := route.CheckUploaded(pair.Name, pair.Value); err != nil && env.Strict && !env.Built {
			options.Fault(err.Error(), "headers", pair.Name)
		}
		header.Set(pair.Name, pair.Value)
	}
	status, given := options.Integer("status", 200, 599)
	if !given {
		status = http.StatusOK
	}
	body, media := staticBody(options, op, env)
	if text, given := options.Text("contentType", 1, 256); given {
		if _, _, err := mime.ParseMediaType(text); err != nil || route.CheckHeader("Content-Type", text) != nil {
			options.Fault("must be a media type", "contentType")
		}
		header.Set("Content-Type", text)
	} else if header.Get("Content-Type") == "" && media != "" {
		header.Set("Content-Type", media)
	}
	empty := status == http.StatusNoContent || status == http.StatusNotModified
	switch {
	case empty && len(body) > 0:
		options.Fault("is a status whose answers have no body", "status")
	case !empty && !options.Has("body") && !options.Has("file"):
		options.Fault("must have body or file")
	case options.Has("body") && options.Has("file"):
		options.Fault("must not be given together with body", "file")
	}
	return &fixedAnswer{route.Response{Status: status, Header: header, Body: body}}
}

// staticBody returns the content that the options define, and its default media type.
func staticBody(options *input.Form, op *routefile.Operation, env *Env) (body []byte, media string) {
	options.Ignore("body")
	if options.Has("body") {
		tree, err := jsontree.Parse(op.Handler.Options)
		if err != nil {
			return nil, "" // the form already has the fault
		}
		value := tree.Member("body")
		if text, ok := value.Text(); ok {
			return []byte(text), "text/plain; charset=utf-8"
		}
		return value.Raw, "application/json"
	}
	name, given := options.Text("file", 1, 1024)
	if !given {
		return nil, ""
	}
	body, err := readFile(env.Folder, strings.TrimPrefix(name, "./"))
	if err != nil {
		options.Fault(err.Error(), "file")
	}
	return body, mediaOf(name)
}

func readFile(folder fs.FS, name string) ([]byte, error) {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") {
		return nil, errOutside
	}
	// The file must be a regular file: reading from anything else may never end.
	info, err := fs.Stat(folder, name)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return nil, errMissing
	case info.Size() > route.MaxResponse:
		return nil, errLongFile
	}
	body, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, errMissing
	}
	return body, nil
}

// mediaOf returns the media type of a file by its name, the same on every machine.
func mediaOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".html", ".htm":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".json":
		return "application/json"
	case ".md":
		return "text/markdown; charset=utf-8"
	case ".txt":
		return "text/plain; charset=utf-8"
	case ".csv":
		return "text/csv; charset=utf-8"
	case ".xml":
		return "application/xml"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".wav":
		return "audio/wav"
	case ".mp3":
		return "audio/mpeg"
	case ".pdf":
		return "application/pdf"
	}
	return "application/octet-stream"
}
