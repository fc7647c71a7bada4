// Command waybill is Waybill in one process, and its command line.
package main

import (
	"os"
	_ "time/tzdata" // an image from scratch has no time zones

	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no certificates

	"waybill.dev/cmd/waybill/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(cli.Main(version, os.Args, os.Stdin, os.Stdout, os.Stderr))
}
