package mcpserver

import (
	"strconv"
	"strings"
)

const (
	// defaultResult is the default maximum of tokens in a tool's result: clients cut or refuse
	// longer results.
	defaultResult = 25_000
	minResult     = 1_000
	maxResult     = 1_000_000
)

// bytesFor returns how many bytes of JSON or English have at most so many tokens: models read 3.5 to
// 4.5 bytes as one, so no model has more.
func bytesFor(tokens int) int { return tokens * 7 / 2 }

// cutText returns the beginning of a text that has at most so many bytes.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// cutNote returns the note that a text was cut, and how to read on.
func cutNote(whole, shown int, next string) string {
	return "\n\n[The result ends here, at byte " + itoa(shown) + " of " + itoa(whole) + ". " + next + "]"
}

func itoa(n int) string { return strconv.Itoa(n) }
