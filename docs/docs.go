// Package docs holds the pages of this folder, for the binaries that show them at /docs.
package docs

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.md performance/*.svg pictures/*.png
var files embed.FS

// Files returns the guides, NAME.md, and the figures that they show.
func Files() fs.FS { return files }

// Names returns the guides' names, which are those of their files without .md, in the order of letters.
func Names() []string {
	files, _ := fs.Glob(files, "*.md") // the pattern is a constant
	for i, name := range files {
		files[i] = strings.TrimSuffix(name, ".md")
	}
	return files
}
