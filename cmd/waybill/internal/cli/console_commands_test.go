package cli_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"waybill.dev/cmd/waybill/internal/cli"
)

// consoleCommands are those that pages of the console show. A test of the api keeps the file.
const consoleCommands = "../../../../services/api/testdata/console-commands.txt"

// misused is the exit code for a command line that can't be understood.
const misused = 2

// What the console tells people to run can be run: each command, argument and flag is there.
//
//nolint:paralleltest // it sets the environment
func TestConsoleCommands(t *testing.T) {
	text, err := os.ReadFile(consoleCommands)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var got []asked
	t.Setenv("WAYBILL_SERVER", api(t, http.StatusOK, `{}`, &got))
	t.Setenv("WAYBILL_KEY", apiKey)
	for line := range strings.Lines(string(text)) {
		// What stands for something of the reader's own, and must have a form.
		command := strings.NewReplacer("whsec_…", "whsec_"+strings.Repeat("A", 32)).Replace(strings.TrimSpace(line))
		arguments := shellWords(command)
		if len(arguments) < 2 || arguments[0] != "waybill" {
			t.Errorf("%q is no command", command)
			continue
		}
		var out, notes bytes.Buffer
		if code := cli.Main("test", arguments, strings.NewReader("{}"), &out, &notes); code == misused {
			t.Errorf("%s\n%s", command, notes.String())
		}
	}
}

// shellWords splits a command as a shell does, which knows single quotes.
func shellWords(command string) []string {
	var words []string
	var word strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == '\'':
			quoted, begun = !quoted, true
		case c == '\\' && !quoted && i+1 < len(command):
			i++
			word.WriteByte(command[i])
		case c == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}
