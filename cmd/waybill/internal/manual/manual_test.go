package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waybill.dev/cmd/waybill/internal/cli"
)

func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1764060000")
	dir := t.TempDir()
	if err := write(dir, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	files := contents(t, dir)

	t.Run("a page for each command and each service", func(t *testing.T) {
		want := []string{"man/man8/waybill-api.8", "man/man8/waybill-dispatcher.8", "man/man8/waybill-gateway.8"}
		for _, name := range commands(cli.Command("v1.2.3")) {
			want = append(want, "man/man1/"+name+".1")
		}
		for _, name := range want {
			if !strings.HasPrefix(files[name], `.TH "`) || !strings.Contains(files[name], `"2025\-11\-25" "waybill v1.2.3"`) {
				t.Errorf("%s is not a page of the manual: %.80q", name, files[name])
			}
		}
		if pages := len(files) - 4; pages != len(want) {
			t.Errorf("%d pages, want %d", pages, len(want))
		}
	})
	t.Run("settings without a flag", func(t *testing.T) {
		for name, setting := range map[string]string{
			"man/man1/waybill-dev.1": "WAYBILL_RETRY_SCHEDULE", "man/man8/waybill-api.8": "WAYBILL_RATE_LIMIT",
			"man/man8/waybill-dispatcher.8": "WAYBILL_DISPATCH_MEMORY", "man/man8/waybill-gateway.8": "WAYBILL_ACME_EMAIL",
		} {
			if !strings.Contains(files[name], "\n.B \""+setting+"\"\n") {
				t.Errorf("%s does not describe %s", name, setting)
			}
		}
	})
	t.Run("completions", func(t *testing.T) {
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", filepath.Join(dir, "completions", "waybill.bash")).CombinedOutput(); err != nil {
			t.Errorf("bash can't read its completion: %v\n%s", err, out)
		}
		for name, begins := range map[string]string{"waybill.bash": "# bash completion", "_waybill": "#compdef waybill", "waybill.fish": "# fish completion", "waybill.ps1": "# powershell completion"} {
			if !strings.HasPrefix(files["completions/"+name], begins) {
				t.Errorf("%s begins with %.40q", name, files["completions/"+name])
			}
		}
	})
	t.Run("the same again", func(t *testing.T) {
		again := t.TempDir()
		if err := write(again, "v1.2.3"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(files, contents(t, again)); diff != "" {
			t.Errorf("another run writes something else (-first +second):\n%s", diff)
		}
	})
}

func TestBuildDate(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := write(t.TempDir(), "v1"); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("a time that can't be read: %v", err)
	}
}

// What roff would take for something of its own is text.
func TestEscapes(t *testing.T) {
	t.Parallel()
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.String("form", "", `a "quoted" \n and -o`)
	p := page{name: "odd-name", section: 1, short: "does \\ things", synopsis: `odd "x"`, long: ".TH is text\n'so is this\n\n  kept\n  as it is\n\nand on", options: set}
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		t.Fatal(err)
	}
	want := `.TH "ODD\-NAME" 1 "" "waybill " "Waybill"
.SH "NAME"
odd\-name \- does \e things
.SH "SYNOPSIS"
.B "odd \(dqx\(dq"
.SH "DESCRIPTION"
\&.TH is text
\&'so is this
.PP
.PP
.nf
  kept
  as it is
.PP
.fi
.PP
and on
.SH "OPTIONS"
.TP
.B "\-\-form string"
a "quoted" \en and \-o
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// contents returns the files below dir.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// commands returns the names of the command and of all below it.
func commands(cmd *cobra.Command) []string {
	list := []string{dashed(cmd)}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, commands(c)...)
		}
	}
	return list
}
