// Package docs holds the pages of this folder, for the binaries that show them at /docs.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed *.md performance/*.svg pictures/*.png
var files embed.FS

// Files returns the guides, NAME.md, and the figures that they show.
func Files() fs.FS { return files }
