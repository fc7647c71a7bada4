package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"waybill.dev/cmd/waybill/internal/cli"
)

// wide lists rows that have more to show than a terminal is wide.
func wide() []struct{ command, member string } {
	long := strings.Repeat("a long text ", 20)
	return []struct{ command, member string }{
		{"buckets list", `"name":"parcels-working-copy","isRetrievable":true,"createdOn":"2026-11-21T10:11:12.345Z","description":"` + long + `","tags":{"team":"` + long + `"}`},
		{"consumers list partners --include-api-keys --include-managers", `"name":"acme","scopes":["webhooks:read","webhooks:write","events:read","events:write"],"apiKeys":[],"managers":[],"createdOn":"2026-11-21T10:11:12.345Z","description":"` + long + `","tags":{}`},
		{"keys list partners acme", `"id":"key_0123456789ABCDEFGHIJKLMN","key":"****1a2b3c4d","expiresOn":"2026-11-21T10:11:12.345Z","description":"` + long + `"`},
		{"keys list partners acme --key-format visible", `"id":"key_0123456789ABCDEFGHIJKLMN","key":"` + fresh + `","expiresOn":"2026-11-21T10:11:12.345Z","description":"` + long + `"`},
		{"managers list partners acme", `"id":"eusr_0123456789ABCDEFGHIJKLMN","email":"somebody.with.a.long.name@example.com","sub":"auth0|0123456789abcdef01234567","acceptedOn":"2026-11-21T10:11:12.345Z"`},
		{"webhooks list", `"id":"` + webhook + `","active":true,"url":"https://example.com/` + strings.Repeat("x", 200) + `"`},
		{"events list", `"id":"evt_0198e5c27c1e7b5e8a516d0a5f1e2b3c","type":"shipment.in_transit","receivedAt":"2026-11-21T10:11:12.345Z"`},
		{"deliveries list", `"id":"0AvQ6nH4aXk3LZ0pT1cR8e","status":"delivered","attemptCount":10,"eventId":"evt_0198e5c27c1e7b5e8a516d0a5f1e2b3c"`},
		{"deployments list parcels", `"name":"parcels-topic-with-a-name-4zq2mw7k5a","branchName":"topic/with-a-name","state":"STARTED","build":{"number":12},"environmentType":"preview","updatedOn":"2026-11-21T10:11:12.345Z","message":"` + long + `"`},
		{"deployments builds parcels", `"number":12,"id":"` + webhook + `","status":"SUCCESS","createdOn":"2026-11-21T10:11:12.345Z","createdBy":"partners/somebody-with-a-long-name"`},
		{"events rejected", `"time":"2026-11-21T10:11:12.345Z","subject":"events.default.shipment.in_transit","reason":"` + long + `"`},
		{"audit list", `"timestamp":"2026-11-21T10:11:12.345Z","action":"update-consumer","actor":{"sub":"` + long + `"},"resources":[{"type":"bucket","id":"bckt_1","metadata":{"name":"partners"}},{"type":"key","id":"key_1","metadata":null}],"success":true`},
		{"projects list", `"name":"parcels","accountName":"default","createdOn":"2026-11-21T10:11:12.345Z"`},
		{"accounts list", `"name":"default","id":"acct_0123456789ABCDEFGHIJKLMN","createdOn":"2026-11-21T10:11:12.345Z"`},
	}
}

const aPage = `{"data":[{%s}],"limit":1,"offset":2,"total":9,"pagination":null}`

// columned returns a terminal of that width.
func columned(t *testing.T, columns uint16) (tty, person *os.File) {
	t.Helper()
	tty, person = terminal(t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatalf("set the terminal's width: %v", err)
	}
	return tty, person
}

// Webhooks of one host are told apart at 80 columns, by the end of their URLs.
func TestURLsAreToldApart(t *testing.T) {
	t.Parallel()
	tty, person := columned(t, 80)
	var got []asked
	base := "https://receiver.shop.example.com/callbacks/of/shipments/"
	row := func(end string) string { return `{"id":"` + webhook + `","active":true,"url":"` + base + end + `"}` }
	code := cli.Main("test", []string{"waybill", "webhooks", "list", "--server", api(t, http.StatusOK, `{"data":[`+row("warehouse")+","+row("returns")+`]}`, &got), "--key", apiKey}, tty, tty, io.Discard)
	if _, err := tty.WriteString("that-was-all\n"); err != nil {
		t.Fatal(err)
	}
	if said := until(t, person, "that-was-all"); code != 0 || !strings.Contains(said, "…") || !strings.Contains(said, "/warehouse") || !strings.Contains(said, "/returns") ||
		!strings.Contains(said, " receiver.") || strings.Contains(said, "https://") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}

// On a terminal a list shows as much of each id as tells it from the others; a pipe gets it whole.
func TestIDsAreShortOnATerminal(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, first, second, shown, other string }{
		{"differ late", "0198e5c2-7c1e-7b5e-8a51-6d0a5f1e2b3c", "0198e5c2-7c1e-7b5f-8a51-6d0a5f1e2b3c", "0198e5c2-7c1e-7b5e ", "0198e5c2-7c1e-7b5f "},
		{"differ at once", "0198e5c2-7c1e-7b5e-8a51-6d0a5f1e2b3c", "1198e5c2-7c1e-7b5f-8a51-6d0a5f1e2b3c", "0198e5c2-7c1e ", "1198e5c2-7c1e "},
		{"the same", "0198e5c2-7c1e-7b5e-8a51-6d0a5f1e2b3c", "0198e5c2-7c1e-7b5e-8a51-6d0a5f1e2b3c", "0198e5c2-7c1e ", "0198e5c2-7c1e "},
		{"the beginning of another", "0198e5c2-7c1e-7b", "0198e5c2-7c1e-7b5e", "0198e5c2-7c1e-7b ", "0198e5c2-7c1e-7b5 "},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			answer := fmt.Sprintf(`{"data":[{"id":%q,"status":"SUCCESS"},{"id":%q,"status":"SUCCESS"}]}`, row.first, row.second)
			tty, person := columned(t, 80)
			var got []asked
			code := cli.Main("test", []string{"waybill", "jobs", "list", "--server", api(t, http.StatusOK, answer, &got), "--key", apiKey}, tty, tty, io.Discard)
			if _, err := tty.WriteString("that-was-all\n"); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(until(t, person, "that-was-all"), "\n")
			if code != 0 || len(lines) < 3 || !strings.HasPrefix(lines[1], row.shown) || !strings.HasPrefix(lines[2], row.other) {
				t.Errorf("exit code %d\n%s", code, strings.Join(lines, "\n"))
			}
			r := call(t, http.StatusOK, answer, "jobs", "list")
			if !strings.Contains(r.stdout, row.first+" ") || !strings.Contains(r.stdout, row.second+" ") {
				t.Errorf("in a pipe:\n%s", r.stdout)
			}
		})
	}
}

// onTerminal returns what a command writes to a terminal of 80 columns.
func onTerminal(t *testing.T, answer string, args ...string) string {
	t.Helper()
	tty, person := columned(t, 80)
	var got []asked
	args = append(append([]string{"waybill"}, args...), "--server", api(t, http.StatusOK, answer, &got), "--key", apiKey)
	if code := cli.Main("test", args, tty, tty, tty); code != 0 {
		t.Errorf("%v: exit code %d", args, code)
	}
	if _, err := tty.WriteString("that-was-all\n"); err != nil {
		t.Fatal(err)
	}
	said, _, _ := strings.Cut(until(t, person, "that-was-all"), "that-was-all")
	return strings.ReplaceAll(said, "\r", "")
}

// Times on a terminal are told from now, durations have units, and words are words.
func TestTimesAreToldFromNowOnATerminal(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("2006-01-02T15:04:05.000Z07:00") }
	delivery := fmt.Sprintf(`"id":"0AvQ6nH4aXk3LZ0pT1cR8e","status":"retrying","createdAt":%q,"nextAttemptAt":%q,"attemptCount":1`, at(-190*time.Second), at(150*time.Second+500*time.Millisecond))
	if said := onTerminal(t, `{"data":[{`+delivery+`}],"nextCursor":"abcdef"}`, "deliveries", "list"); !strings.Contains(said, "  3 min ago  ") || !strings.Contains(said, "  in 2 min  ") ||
		strings.Contains(said, "abcdef") || !strings.HasSuffix(said, "1 are shown. All of them: --all\n") {
		t.Errorf("a list:\n%s", said)
	}
	said := onTerminal(t, `{`+delivery+fmt.Sprintf(`,"attempts":[{"number":1,"startedAt":%q,"durationMs":1250,"status":500,"phases":{"bodyMs":0.017,"dnsMs":1.25}}]}`, at(-2*time.Hour)), "deliveries", "get", "0AvQ6nH4aXk3LZ0pT1cR8e")
	for _, want := range []string{"  (3 min ago)\n", "  (in 2 min)\n", "2 h ago  1.2 s  500     name 1.2 ms, body 0.017 ms"} {
		if !strings.Contains(said, want) {
			t.Errorf("a delivery lacks %q:\n%s", want, said)
		}
	}
	said = onTerminal(t, `{"verdict":"behindShipment","summary":"It waits."}`, "deliveries", "explain", "0AvQ6nH4aXk3LZ0pT1cR8e")
	if said != "behind shipment: It waits.\n" {
		t.Errorf("an explanation: %q", said)
	}
}

func TestTablesFit(t *testing.T) {
	t.Parallel()
	for _, columns := range []uint16{80, 120} {
		for _, row := range wide() {
			t.Run(fmt.Sprint(columns, " ", row.command), func(t *testing.T) {
				t.Parallel()
				tty, person := columned(t, columns)
				var got []asked
				var notes bytes.Buffer
				args := append([]string{"waybill"}, strings.Fields(row.command)...)
				code := cli.Main("test", append(args, "--server", api(t, http.StatusOK, fmt.Sprintf(aPage, row.member), &got), "--key", apiKey), tty, tty, &notes)
				if _, err := tty.WriteString("that-was-all\n"); err != nil {
					t.Fatal(err)
				}
				said, _, _ := strings.Cut(until(t, person, "that-was-all"), "that-was-all")
				lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(said, "\r", ""), "\n"), "\n")
				if code != 0 || len(lines) != 2 {
					t.Fatalf("exit code %d\n%s%s", code, said, &notes)
				}
				for _, line := range lines {
					if utf8.RuneCountInString(strings.TrimRight(line, " ")) > int(columns) {
						t.Errorf("%d columns:\n%s", utf8.RuneCountInString(line), said)
					}
				}
				if want := "1 of 9 are shown. Next page: --offset 3.\n"; notes.String() != want {
					t.Errorf("notes %q, want %q", notes.String(), want)
				}
			})
		}
	}
}

// What goes into a pipe is for programs, and for people who search in it.
func TestNothingIsCutInAPipe(t *testing.T) {
	t.Parallel()
	for _, row := range wide() {
		t.Run(row.command, func(t *testing.T) {
			t.Parallel()
			r := call(t, http.StatusOK, fmt.Sprintf(aPage, row.member), strings.Fields(row.command)...)
			if r.code != 0 || strings.Contains(r.stdout, "…") || strings.Contains(r.stdout, "\x1b") {
				t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if want := strings.Repeat("a long text ", 20); strings.Contains(row.member, want) && !strings.Contains(r.stdout, want) {
				t.Errorf("a column is left out:\n%s", r.stdout)
			}
		})
	}
}
