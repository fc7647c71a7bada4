// Package look defines the look of Waybill's pages: the one style sheet, the elements of pages,
// their icons, and the script of the elements. docs/design.md says when to use which. The console,
// the documentation and the receiver's page use it.
package look

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed waybill.css elements.js icon.svg
var own embed.FS

//go:embed templates/*.html
var elements embed.FS

// Parse adds the elements and the icons to a set of templates. The set must have [Functions].
func Parse(set *template.Template) (*template.Template, error) {
	return set.ParseFS(elements, "templates/*.html")
}

// Assets are the files that pages refer to: waybill.css, elements.js, icon.svg and those of the
// package that serves the pages. Each is served under a name that changes with its content.
type Assets struct {
	base  string
	names map[string]string // name to the name with its hash
	files map[string]Asset  // by the name with the hash
	zip   *Zipper
}

// Asset is a file, plain and compressed.
type Asset struct {
	ContentType string
	Plain       []byte
	Zipped      func() []byte // compresses when it is first called
}

// NewAssets returns the assets, with the .css, .js and .svg files at the top of more. base is the
// path below which they are served, and ends with a slash.
func NewAssets(base string, more ...fs.FS) (*Assets, error) {
	a := &Assets{base: base, names: make(map[string]string), files: make(map[string]Asset), zip: &Zipper{}}
	for _, files := range append([]fs.FS{own}, more...) {
		if err := a.add(files); err != nil {
			return nil, fmt.Errorf("read assets: %w", err)
		}
	}
	return a, nil
}

func (a *Assets) add(files fs.FS) error {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		extension := path.Ext(entry.Name())
		contentType := typeOf(extension)
		if contentType == "" {
			continue
		}
		body, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		hashed := strings.TrimSuffix(entry.Name(), extension) + "." + hex.EncodeToString(sum[:6]) + extension
		a.names[entry.Name()] = hashed
		a.files[hashed] = Asset{contentType, body, sync.OnceValue(func() []byte { return a.zip.Zip(body) })}
	}
	return nil
}

func typeOf(extension string) string {
	switch extension {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return ""
}

// Path returns the path of an asset.
func (a *Assets) Path(name string) (string, error) {
	hashed, ok := a.names[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %s", name)
	}
	return a.base + hashed, nil
}

// Find returns an asset by the name under which it is served.
func (a *Assets) Find(name string) (Asset, bool) {
	file, ok := a.files[name]
	return file, ok
}

// ServeHTTP serves the asset with the name in the path's value "name". An
// asset never changes under its name.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.Find(r.PathValue("name"))
	if !ok {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "private, max-age=31536000, immutable")
	header.Set("Vary", "Accept-Encoding")
	header.Set("Content-Type", file.ContentType)
	var zipped []byte
	if AcceptsGzip(r) {
		zipped = file.Zipped()
	}
	Send(w, r, http.StatusOK, file.Plain, zipped)
}

// Send writes a body, compressed if the client accepts that; a nil zipped is never sent.
func Send(w http.ResponseWriter, r *http.Request, status int, plain, zipped []byte) {
	if zipped != nil && AcceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		plain = zipped
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(plain) // a client that is gone can't be told
	}
}

// AcceptsGzip reports whether the client takes compressed bodies.
func AcceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(name, "gzip") && strings.ReplaceAll(parameters, " ", "") != "q=0" {
			return true
		}
	}
	return false
}
