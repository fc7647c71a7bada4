package cli_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"waybill.dev/cmd/waybill/internal/cli"
)

// What is written over and over is on a terminal only, and leaves nothing behind.
func TestDeployOnATerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []uint16{50, 120} {
		t.Run(strconv.Itoa(int(columns)), func(t *testing.T) {
			t.Parallel()
			tty, person := columned(t, columns)
			b := bad()
			b.states = append(good().states[:2], b.states...)
			folder := shopFolder(t)
			code := cli.Main("test", []string{"waybill", "deploy", folder, "--project", "shop", "--server", b.start(t), "--key", apiKey}, tty, tty, tty)
			if _, err := tty.WriteString("that-was-all\n"); err != nil {
				t.Fatal(err)
			}
			said, _, _ := strings.Cut(until(t, person, "that-was-all"), "that-was-all")
			if code != 1 || !strings.Contains(said, "waiting for a gateway: 0 s") {
				t.Errorf("exit code %d\n%s", code, said)
			}
			var stays []string
			for line := range strings.SplitSeq(said, "\n") {
				line = strings.TrimSuffix(line, "\r")
				if at := strings.LastIndex(line, "\r\x1b[K"); at >= 0 {
					line = line[at+len("\r\x1b[K"):]
				}
				line = strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "").Replace(line)
				if strings.ContainsAny(line, "\r\x1b") || strings.Contains(line, "waiting") {
					t.Errorf("left behind: %q", line)
				}
				if n := utf8.RuneCountInString(line); n > int(columns) && !strings.Contains(line, folder) && !strings.HasPrefix(line, "waybill: ") {
					t.Errorf("%d columns: %s", n, line)
				}
				stays = append(stays, strings.TrimSpace(line))
			}
			if text := strings.Join(stays, " "); !strings.Contains(text, "check      shop.oas.json: rates: /paths/~1rates/get: must be a URL") {
				t.Errorf("the fault is not in\n%s", strings.Join(stays, "\n"))
			}
		})
	}
}
