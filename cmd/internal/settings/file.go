package settings

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ReadFile reads a file of lines NAME=value, as Docker and systemd know them: empty lines and those
// that begin with # are skipped, "export " before a name is allowed, and a value may be in single
// or double quotes, which are removed. A name that is not a setting is a fault, because most such
// names are misspelt. Values are never shown.
func ReadFile(path string) (Source, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Config, err)
	}
	defer file.Close()
	values := make(map[string]string)
	var faults []error
	fault := func(line int, reason string) {
		faults = append(faults, fmt.Errorf("%s line %d: %s", path, line, reason))
	}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(text, "export "), "=")
		name = strings.TrimSpace(name)
		spec, known := specOf(name)
		switch {
		case !ok:
			fault(n, "is not of the form NAME=value")
		case !known || spec.Name != name:
			fault(n, fmt.Sprintf("%s is not a setting", printable(name)))
		default:
			if _, twice := values[name]; twice {
				fault(n, name+" is set twice")
			}
			values[name] = unquote(strings.TrimSpace(value))
		}
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Errorf("read %s: %w", path, err))
	}
	return MadeFrom(values), errors.Join(faults...)
}

// printable returns the name if it has the form of one. Any other text before the = could be a
// secret.
func printable(name string) string {
	for _, r := range name {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' {
			return "the text before ="
		}
	}
	return name
}

func unquote(value string) string {
	if len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		return value[1 : len(value)-1]
	}
	return value
}
