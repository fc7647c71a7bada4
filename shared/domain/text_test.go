package domain_test

import (
	"testing"
	"unicode/utf8"

	"waybill.dev/shared/domain"
)

func TestCutText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "abcd": "abcd", "abcde": "abcd", "aéé": "aé", "ééé": "éé", "🙂🙂": "🙂", "\xff": "\uFFFD", "a\xff\xffb": "a\uFFFD", "\x00": "\uFFFD",
	} {
		got := domain.CutText(text, 4)
		if got != want || !utf8.ValidString(got) {
			t.Errorf("CutText(%q) is %q, want %q", text, got, want)
		}
	}
}
