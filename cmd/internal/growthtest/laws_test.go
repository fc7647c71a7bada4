package growthtest

import (
	"bufio"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// laws say which statements may do more on the large database, and why. What is not among them, and
// is not yet as it should be, is in debts.txt with its figure.
var laws = []struct {
	of  *regexp.Regexp // the statement, as it is printed
	why string
}{
	{regexp.MustCompile(`FROM webhooks WHERE (NOT deleted|version > \?)( ORDER BY .*)?$`), "n webhooks, which a dispatcher reads once, at its start"},
	{regexp.MustCompile(`FROM webhook_health( WHERE updated_at >= \?)?$`), "likewise"},
	{regexp.MustCompile(`FROM accounts ORDER BY created_at, seq LIMIT`), "a page of accounts, of 1,000, which a dispatcher reads at its start; the small database has ten"},
	{regexp.MustCompile(`FROM gateway_(deployments|tunnels|client_cas)( WHERE removed_at IS NULL.*)?$`), "n of what is served, which a gateway reads once, at its start"},
	{regexp.MustCompile(`FROM gateway_domains d LEFT JOIN .* WHERE d.removed_at IS NULL$`), "likewise"},
	{regexp.MustCompile(`^INSERT INTO \S+ \([^)]*\) VALUES …$`), "log n in each index of the table"},
}

// debtList are the statements that grow and should not.
type debtList struct {
	known map[string]int64 // what they do on the large database, by dialect and text

	mu   sync.Mutex
	seen map[string]debt
}

type debt struct{ few, many int64 }

//go:embed debts.txt
var debtsText string

var debts = readDebts()

func readDebts() *debtList {
	d := &debtList{known: make(map[string]int64), seen: make(map[string]debt)}
	for lines := bufio.NewScanner(strings.NewReader(debtsText)); lines.Scan(); {
		parts := strings.SplitN(lines.Text(), "\t", 4)
		if len(parts) < 4 {
			continue // a comment
		}
		many, _ := strconv.ParseInt(parts[2], 10, 64)
		d.known[parts[0]+"\t"+parts[3]] = many
	}
	return d
}

func (d *debtList) key(dialect, text string) string { return fmt.Sprintf("%s\t%.600s", dialect, text) }

// note remembers a statement for the list as it should be now.
func (d *debtList) note(dialect string, few, many int64, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := d.key(dialect, text)
	if d.seen[key].many < many {
		d.seen[key] = debt{few, many}
	}
}

// allows tells whether the statement is on the list and does no more than it says, nearly.
func (d *debtList) allows(dialect string, many, slack int64, text string) bool {
	known, ok := d.known[d.key(dialect, text)]
	return ok && float64(many) <= mostGrowth*float64(known)+float64(slack)
}

// write writes the list as it should be now.
func (d *debtList) write(path string) error {
	var text strings.Builder
	text.WriteString("# What grows and should not: dialect, work on the small database, on the large one, statement.\n# `make growth-debts` writes this file. A line that is gone was mended; one that is new must not be.\n")
	for _, key := range slices.Sorted(maps.Keys(d.seen)) {
		dialect, statement, _ := strings.Cut(key, "\t")
		fmt.Fprintf(&text, "%s\t%d\t%d\t%s\n", dialect, d.seen[key].few, d.seen[key].many, statement)
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}
