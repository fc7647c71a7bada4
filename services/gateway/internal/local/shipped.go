package local

import (
	"embed"
	"io/fs"
)

// shippedFiles are those of config/ at the root of the project: an installation that has
// no folder of its own serves them, too.
//
//go:embed shipped/*.json
var shippedFiles embed.FS

func shipped() fs.FS {
	files, err := fs.Sub(shippedFiles, "shipped")
	if err != nil {
		panic(err) // the name is a valid one
	}
	return files
}
