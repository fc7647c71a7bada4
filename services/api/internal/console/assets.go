package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed assets/*.css assets/*.js assets/*.svg
var assetFiles embed.FS

const assetsPath = "/console/assets/"

// assets are the files that pages name, each by a name that changes with what is in it.
type assets struct {
	names map[string]string // name to the name with its hash
	files map[string]asset  // by the latter
}

type asset struct {
	contentType   string
	plain, zipped []byte
}

func newAssets() (*assets, error) {
	a := &assets{names: make(map[string]string), files: make(map[string]asset)}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	for _, entry := range entries {
		body, err := assetFiles.ReadFile("assets/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read assets: %w", err)
		}
		sum := sha256.Sum256(body)
		extension := path.Ext(entry.Name())
		hashed := strings.TrimSuffix(entry.Name(), extension) + "." + hex.EncodeToString(sum[:6]) + extension
		a.names[entry.Name()] = hashed
		a.files[hashed] = asset{typeOf(extension), body, zip(body)}
	}
	return a, nil
}

func typeOf(extension string) string {
	switch extension {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	}
	return "image/svg+xml"
}

// zip compresses what is in memory, which can't fail.
func zip(body []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

// path returns where an asset is.
func (a *assets) path(name string) (string, error) {
	hashed, ok := a.names[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %s", name)
	}
	return assetsPath + hashed, nil
}

// ServeHTTP serves an asset. It never changes under its name.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	secure(header)
	file, ok := a.files[r.PathValue("name")]
	if !ok {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	header.Set("Cache-Control", "private, max-age=31536000, immutable")
	header.Set("Vary", "Accept-Encoding")
	header.Set("Content-Type", file.contentType)
	send(w, r, http.StatusOK, file.plain, file.zipped)
}

// send writes a body, compressed where the client takes that; nil: it is not compressed.
func send(w http.ResponseWriter, r *http.Request, status int, plain, zipped []byte) {
	if zipped != nil && acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		plain = zipped
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(plain) // a client that is gone can't be told
	}
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(name, "gzip") && strings.ReplaceAll(parameters, " ", "") != "q=0" {
			return true
		}
	}
	return false
}
