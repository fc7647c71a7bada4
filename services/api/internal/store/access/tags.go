package access

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"
)

// Tags are stored in a column as lines, each a JSON array of name and value, with a line break
// before the first and after each. As JSON escapes line breaks, a pair is among the tags exactly
// when its line is found, whatever its characters are.

func joinTags(tags map[string]string) (string, error) {
	if len(tags) == 0 {
		return "", nil
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		line, err := tagLine(name, tags[name])
		if err != nil {
			return "", err
		}
		text.WriteString(line[:len(line)-1])
	}
	text.WriteByte('\n')
	return text.String(), nil
}

// tagLine returns the line of a pair with the line breaks around it.
func tagLine(name, value string) (string, error) {
	pair, err := json.Marshal([2]string{name, value})
	if err != nil {
		return "", fmt.Errorf("encode tag: %w", err)
	}
	return "\n" + string(pair) + "\n", nil
}

func splitTags(text string) (map[string]string, error) {
	tags := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(text, "\n")) {
		var pair [2]string
		if err := json.Unmarshal([]byte(line), &pair); err != nil {
			return nil, fmt.Errorf("read tags: %w", err)
		}
		tags[pair[0]] = pair[1]
	}
	return tags, nil
}

// hasTags reports whether every pair of want is among the tags.
func hasTags(tags, want map[string]string) bool {
	for name, value := range want {
		if have, ok := tags[name]; !ok || have != value {
			return false
		}
	}
	return true
}

// withTags narrows a query to rows that have every pair of want.
func (a *Access) withTags(query *gorm.DB, want map[string]string) (*gorm.DB, error) {
	position := "strpos"
	if a.db.SQLite() {
		position = "instr"
	}
	for name, value := range want {
		line, err := tagLine(name, value)
		if err != nil {
			return nil, err
		}
		query = query.Where(position+"(tags, ?) > 0", line)
	}
	return query, nil
}
