package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// generator makes the data of events as odd as JSON allows: every number form, text of
// many scripts with and without escapes, nesting, empty values, spaces between tokens.
type generator struct{ r *rand.Rand }

func newGenerator(seed uint64) *generator {
	return &generator{rand.New(rand.NewPCG(seed, seed))}
}

// data returns an object with a shipmentId, at most some kilobytes long.
func (g *generator) data() string {
	members := []string{fmt.Sprintf(`"shipmentId"%s:%s"shp_%d"`, g.space(), g.space(), g.r.Uint32())}
	for i := range g.r.IntN(8) {
		members = append(members, fmt.Sprintf(`%s%s:%s`, g.text(fmt.Sprintf("x%d", i)), g.space(), g.value(4)))
	}
	if g.r.IntN(3) == 0 {
		members = append(members, `"metadata":{"score":0.1000,"big":9007199254740993}`)
	}
	if g.r.IntN(500) == 0 {
		members = append(members, fmt.Sprintf(`"note":"%s"`, strings.Repeat("long ü 東 ", 4000)))
	}
	g.r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + g.space() + strings.Join(members, g.space()+","+g.space()) + g.space() + "}"
}

func (g *generator) space() string { return g.pick("", "", "", " ", "\n\t", "  ") }

func (g *generator) pick(options ...string) string { return options[g.r.IntN(len(options))] }

func (g *generator) value(depth int) string {
	kind := g.r.IntN(8)
	if depth == 0 {
		kind = g.r.IntN(6)
	}
	switch kind {
	case 0:
		return g.pick("true", "false", "null", `""`, "{}", "[]", "[ ]", "{ }", `[null]`, `[[],{}]`)
	case 1:
		return g.pick("0", "-0", "1e3", "1E+3", "1e-7", "0.1000", "-12.50", "9007199254740993", "-9223372036854775809",
			"123456789012345678901234567890", "1.7976931348623157e309", "5e-324", "0.30000000000000004", "100")
	case 2:
		return fmt.Sprintf("%d.%03d", g.r.Int64(), g.r.IntN(1000))
	case 3, 4, 5:
		return g.text("")
	case 6:
		items := make([]string, g.r.IntN(5))
		for i := range items {
			items[i] = g.value(depth - 1)
		}
		return "[" + strings.Join(items, ","+g.space()) + "]"
	}
	members := make([]string, g.r.IntN(5))
	for i := range members {
		members[i] = fmt.Sprintf(`%s%s:%s`, g.text(strconv.Itoa(i)), g.space(), g.value(depth-1))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// text returns a JSON string that begins with prefix, which makes names differ.
func (g *generator) text(prefix string) string {
	var b strings.Builder
	b.WriteString(`"` + prefix)
	for range g.r.IntN(12) {
		b.WriteString(g.pick("a", "Z", "7", " ", "ß", "Köln", "東京", "🚚", "👩‍👩‍👧", "e\u0301", "\u200f", "عربي", "\u2028",
			`\"`, `\\`, `\/`, "/", `\n`, `\u00e9`, `\uD83D\uDE9A`, `\u2028`, `\u001f`, "<script>", "&amp;", "\u007f", "\uffff", "'"))
	}
	b.WriteString(`"`)
	return b.String()
}
