// Package attack has JSON that is expensive to read, and checks that readers keep to the limits for a
// body: memory of at most four times its size, and 50 ms of one processor for each
// MiB.
package attack

import (
	"bytes"
	"fmt"
	"strings"
)

// Body is JSON that is made to be expensive. Some bodies are not valid JSON.
type Body struct {
	Name string
	Text []byte
}

// Bodies returns bodies of about size bytes, which is at least 4 KiB.
func Bodies(size int) []Body {
	long := strings.Repeat("n", size/5)
	return []Body{
		{"names repeated below a long name", wrap(`{"`+long+`":{`, `"a":0`, `}}`, size)},
		{"U+0000 below a long name", wrap(`{"`+long+`":[`, `"\u0000"`, `]}`, size)},
		{"U+0000 in names below a long name", counted(`{"`+long+`":{`, `"\u0000%x":0`, `}}`, size)},
		{"wrong types below a long name", wrap(`{"`+long+`":[`, `0`, `]}`, size)},
		{"20,000 repeated names", wrap(`{`, `"a":0`, `}`, min(size, 20_000*len(`"a":0,`)))},
		{"a long name repeated", wrap(`{`, `"`+strings.Repeat("n", size/64)+`":0`, `}`, size)},
		{"distinct names", counted(`{`, `"%x":0`, `}`, size)},
		{"distinct names written with escapes", counted(`{`, `"\u006e%x":0`, `}`, size)},
		{"names that begin alike", counted(`{`, `"`+strings.Repeat("n", size/32)+`%x":0`, `}`, size)},
		{"names that begin alike, with escapes", counted(`{`, `"\u006e`+strings.Repeat("n", size/32)+`%x":0`, `}`, size)},
		{"objects with 17 names each", wrap(`[`, `{`+names(17)+`}`, `]`, size)},
		{"long names at every level", nest(`{"`+strings.Repeat("n", size/128)+`":`, `{"a":0,"a":0,"a":0}`, `}`, 60)},
		{"open brackets", bytes.Repeat([]byte("["), size)},
		{"open braces", bytes.Repeat([]byte(`{"a":`), size/5)},
		{"brackets", nest("[", "", "]", size/2)},
		{"chains of brackets", wrap(`[`, strings.Repeat("[", 60)+strings.Repeat("]", 60), `]`, size)},
		{"zeros", wrap(`[`, `0`, `]`, size)},
		{"empty objects", wrap(`[`, `{}`, `]`, size)},
		{"empty texts", wrap(`[`, `""`, `]`, size)},
		{"distinct numbers", counted(`[`, `%d`, `]`, size)},
		{"numbers with exponents", wrap(`[`, `1e400`, `]`, size)},
		{"numbers with huge exponents", wrap(`[`, `1e999999`, `]`, size)},
		{"a number of a million digits", bytes.Repeat([]byte("9"), size)},
		{"escapes", wrap(`["`, `\u0041\"\\`, `"]`, size)},
		{"escaped quotes", []byte(`["` + strings.Repeat(`\"`, size/2) + `"]`)},
		{"surrogate pairs", []byte(`["` + strings.Repeat(`\ud83d\ude00`, size/12) + `"]`)},
		{"a text of many bytes a character", []byte(`["` + strings.Repeat("😀", size/4) + `"]`)},
		{"a text that does not end", []byte(`["` + strings.Repeat("a", size))},
		{"bytes that are no UTF-8", []byte(`["` + strings.Repeat("\xff", size))},
		{"spaces", []byte(`[0` + strings.Repeat(" ", size) + `]`)},
		{"commas", []byte(`[` + strings.Repeat(",", size))},
		{"values one after the other", bytes.Repeat([]byte("0 "), size/2)},
	}
}

// wrap returns as many parts as fit into size.
func wrap(before, part, after string, size int) []byte {
	n := max((size-len(before)-len(after))/(len(part)+1), 1)
	return []byte(before + part + strings.Repeat(","+part, n-1) + after)
}

// counted is wrap with the number of each part in it.
func counted(before, part, after string, size int) []byte {
	b := []byte(before)
	for i := 0; len(b) < size || i == 0; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, part, i)
	}
	return append(b, after...)
}

func nest(before, middle, after string, levels int) []byte {
	return []byte(strings.Repeat(before, levels) + middle + strings.Repeat(after, levels))
}

// names returns n members.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"n%d":0`, i)
	}
	return b.String()
}
