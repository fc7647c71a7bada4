package mcpserver

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// Weights of a word, by the part of a tool's description that has it.
const (
	inName        = 4
	inToolset     = 2
	inDescription = 1
)

// terms returns the words of a tool, with their weights.
func terms(name, title, description string, tags []string) map[string]int {
	found := make(map[string]int)
	for text, counts := range map[string]int{name + " " + title: inName, strings.Join(tags, " "): inToolset, description: inDescription} {
		for _, word := range words(text) {
			found[word] = max(found[word], counts)
		}
	}
	return found
}

// words returns the words of a text in lower case, with plurals in the singular.
func words(text string) []string {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range all {
		if len(word) > 3 && !strings.HasSuffix(word, "ss") {
			all[i] = strings.TrimSuffix(word, "s")
		}
	}
	return all
}

// rankTools returns the tools that share a word with the question, the best first. The fewer tools have
// a word, the more it counts.
func rankTools(entries []*entry, question string) []*entry {
	scores := make(map[*entry]float64)
	asked := words(question)
	slices.Sort(asked)
	for _, word := range slices.Compact(asked) {
		have := 0
		for _, e := range entries {
			if e.tool.terms[word] > 0 {
				have++
			}
		}
		for _, e := range entries {
			if counts := e.tool.terms[word]; counts > 0 {
				scores[e] += float64(counts) * math.Log1p(float64(len(entries))/float64(have))
			}
		}
	}
	ranked := slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool { return scores[e] == 0 })
	slices.SortStableFunc(ranked, func(a, b *entry) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	return ranked
}
