package web

import (
	"testing"
	"unicode/utf8"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "abcd": "abcd", "abcde": "abcd", "aéé": "aé", "ééé": "éé", "🙂🙂": "🙂", "\xff": "\uFFFD", "a\xff\xffb": "a\uFFFD",
	} {
		got := cut(text, 4)
		if got != want || !utf8.ValidString(got) {
			t.Errorf("cut(%q) is %q, want %q", text, got, want)
		}
	}
}
