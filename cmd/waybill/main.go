// Command waybill is Waybill in one process, and the command line for it.
package main

import (
	"os"
	_ "time/tzdata" // an image from scratch has no time zones

	_ "golang.org/x/crypto/x509roots/fallback" // nor certificates

	"waybill.dev/cmd/waybill/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(cli.Main(version, os.Args, os.Stdin, os.Stdout, os.Stderr))
}
