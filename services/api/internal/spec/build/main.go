// Command build writes the served documents, openapi.json and asyncapi.json, from the YAML that people write, and the schemas of answers
// into the shipped route file. Run it by `go generate` in the folder above; a test fails when that was forgotten.
package main

import (
	"fmt"
	"os"

	"waybill.dev/services/api/internal/spec/source"
)

func main() {
	if err := run(); err != nil {
		panic(err) // people run it by hand
	}
}

func run() error {
	documents, err := source.Build(".")
	if err != nil {
		return err
	}
	for name, body := range documents {
		if err := os.WriteFile(name, body, 0o600); err != nil {
			return fmt.Errorf("write document: %w", err)
		}
	}
	return nil
}
