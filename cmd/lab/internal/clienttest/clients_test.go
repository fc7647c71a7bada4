package clienttest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
)

var tools = flag.String("tools", "", "the folder with the generators that are Node packages; empty: nothing is run")

func TestMain(m *testing.M) {
	flag.Parse()
	if *tools == "" {
		fmt.Fprintln(os.Stderr, "NOT RUN: typed clients made from the API document (make clients)")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Each client is made with the defaults of its generator from the document as it is served. It registers and reads a
// webhook, publishes an event, lists deliveries, and deletes the webhook.
func TestClients(t *testing.T) {
	t.Parallel()
	site, err := stack.NewSite(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	st, err := site.AllInOne(t.Context(), stack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(st.Died(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	receivers, err := sink.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(receivers.Close)
	arguments := []string{st.URL, st.Key, receivers.Endpoint("clients").URL}
	document := served(t, st.URL+"/openapi")

	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		dir := copied(t, "go", document)
		command(t, dir, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "client", "-o", "oapi/client/client.go", "openapi.json")
		command(t, dir, "go", "tool", "ogen", "-target", "ogen/client", "-package", "client", "openapi.json")
		for _, client := range []string{"oapi", "ogen"} {
			command(t, dir, "go", append([]string{"run", "-tags=generated", "./" + client}, arguments...)...)
		}
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		dir := copied(t, "node", document)
		packages, err := filepath.Abs(filepath.Join(*tools, "node_modules"))
		if err != nil {
			t.Fatal(err)
		}
		// One of the generators looks for tsconfig.json above its own folder.
		command(t, dir, "cp", "--archive", packages, "node_modules")
		command(t, dir, "node_modules/.bin/openapi-typescript", "openapi.json", "-o", "schema.d.ts")
		command(t, dir, "node_modules/.bin/openapi-ts", "-i", "openapi.json", "-o", "hey-api")
		command(t, dir, "node_modules/.bin/tsc")
		for _, client := range []string{"openapi-fetch", "hey-api"} {
			command(t, dir, "node", append([]string{"out/" + client + ".js"}, arguments...)...)
		}
	})
}

// served returns what is answered at an address.
func served(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, answer.StatusCode, err)
	}
	return body
}

// copied copies a folder with calls to one where clients may be generated beside them.
func copied(t *testing.T, from string, document []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"oapi/client", "ogen/client"} {
		if err := os.MkdirAll(filepath.Join(dir, client), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "openapi.json"), document, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// command runs a program to its end.
func command(t *testing.T, dir, program string, arguments ...string) {
	t.Helper()
	c := exec.CommandContext(context.WithoutCancel(t.Context()), program, arguments...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
}
