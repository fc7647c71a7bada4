// Command waybill-gateway runs Waybill's gateway as a service, on NATS and Postgres.
package main

import (
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no certificates

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/gatewaypart"
	"waybill.dev/cmd/internal/settings"
)

// version is set by the linker.
var version = "dev"

func main() {
	service := boot.Service{Name: "gateway", Role: settings.Gateway, Version: version, Add: gatewaypart.Add}
	os.Exit(service.Main(os.Args[1:], os.Stdout, os.Stderr))
}
