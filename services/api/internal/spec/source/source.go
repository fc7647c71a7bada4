// Package source turns the YAML of the API documents into the JSON that is served. It is not part of any binary.
package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"
)

// shippedFolder is the path from the folder that Build reads to config/, which has the shipped routes.
const shippedFolder = "../../../../config/"

// Build reads the YAML below dir and returns the documents by the names of their files. The files in openapi/
// are parts of one document: their mappings are merged in the order of their names, after info.yaml. The shipped
// route files are returned, too, with the schemas of their tools' answers, a tool for each operation, and a
// resource for each guide; tools.json names the tools.
func Build(dir string) (map[string][]byte, error) {
	parts, err := filepath.Glob(filepath.Join(dir, "openapi", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list parts: %w", err)
	}
	first := filepath.Join(dir, "openapi", "info.yaml")
	slices.SortStableFunc(parts, func(a, b string) int {
		switch {
		case a == first && b != first:
			return -1
		case b == first && a != first:
			return 1
		}
		return 0
	})
	documents := make(map[string][]byte)
	if documents["openapi.json"], err = merge(parts); err != nil {
		return nil, err
	}
	if documents["asyncapi.json"], err = merge([]string{filepath.Join(dir, "asyncapi.yaml")}); err != nil {
		return nil, err
	}
	name := shippedFolder + "routes.oas.json"
	routes, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("read routes: %w", err)
	}
	if routes, err = Routes(documents["openapi.json"], routes); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	if documents[shippedFolder+operationsFile], documents[name], err = Tools(documents["openapi.json"], routes); err != nil {
		return nil, fmt.Errorf("make tools: %w", err)
	}
	if documents["tools.json"], err = toolNames(documents[name], documents[shippedFolder+operationsFile]); err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	name = shippedFolder + guidesFile
	guides, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("read routes: %w", err)
	}
	if documents[name], err = Guides(guides); err != nil {
		return nil, fmt.Errorf("make resources: %w", err)
	}
	return documents, nil
}

func merge(paths []string) ([]byte, error) {
	var whole yaml.MapSlice
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Clean(path))
		if err != nil {
			return nil, fmt.Errorf("read part: %w", err)
		}
		var part yaml.MapSlice
		if err := yaml.UnmarshalWithOptions(text, &part, yaml.UseOrderedMap()); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if whole, err = join(whole, part); err != nil {
			return nil, fmt.Errorf("merge %s: %w", path, err)
		}
	}
	text, err := yaml.MarshalWithOptions(whole, yaml.JSON())
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	var body bytes.Buffer
	if err := json.Indent(&body, bytes.TrimSpace(text), "", " "); err != nil {
		return nil, fmt.Errorf("indent JSON: %w", err)
	}
	body.WriteByte('\n')
	return body.Bytes(), nil
}

// join adds the members of part to whole. Mappings that are in both are joined; any other member that is in both is an
// error.
func join(whole, part yaml.MapSlice) (yaml.MapSlice, error) {
	for _, item := range part {
		at := slices.IndexFunc(whole, func(other yaml.MapItem) bool { return other.Key == item.Key })
		if at < 0 {
			whole = append(whole, item)
			continue
		}
		old, oldOK := whole[at].Value.(yaml.MapSlice)
		more, moreOK := item.Value.(yaml.MapSlice)
		if !oldOK || !moreOK {
			return nil, fmt.Errorf("%v is there twice", item.Key)
		}
		joined, err := join(old, more)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", item.Key, err)
		}
		whole[at].Value = joined
	}
	return whole, nil
}
