// Package config holds the route files of this folder, for gateways that have no folder of their own.
package config

import (
	"embed"
	"io/fs"
)

//go:embed *.json
var files embed.FS

// Files returns the route files, and the policies that are documented beside them.
func Files() fs.FS { return files }
