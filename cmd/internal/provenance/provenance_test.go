package provenance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/internal/provenance"
)

// A mark is read as it was written, in the middle of a text, with words behind the command and without a hash too.
func TestMark(t *testing.T) {
	t.Parallel()
	m := provenance.Mark{Day: "6 Nov 2026", Commit: "01234567+", Command: "`make bench ARGS='-only rest-1'`", Of: []string{"services/api", "shared/bus"}, Hash: "0123456789ab"}
	unhashed := strings.Replace(strings.Replace(m.String(), m.Hash+" ", "", 1), "`. ", "`. And more. ", 1)
	marks, at := provenance.Read("A\n\n" + m.String() + " B\n" + unhashed + "\n<!-- of nothing -->")
	without := m
	without.Hash = ""
	if diff := cmp.Diff([]provenance.Mark{m, without}, marks); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	if len(at) != 2 || at[0] != 3 {
		t.Errorf("they begin at %v", at)
	}
}

// The hash of a commit is that of its files. It changes with the code and its statements, and not with tests and pages.
func TestHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := func() string {
		t.Helper()
		hash, err := provenance.Hash(dir, []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	git("init", "--quiet")
	for name, text := range map[string]string{"a/a.go": "package a\n", "a/deep/x.sql": "SELECT 1\n", "b/b.go": "package b\n", "c/c.go": "package c\n"} {
		write(name, text)
	}
	git("add", ".")
	git("commit", "--quiet", "-m", "first")
	first := now()
	if at, err := provenance.HashAt(t.Context(), dir, git("rev-parse", "HEAD"), []string{"a", "b"}); err != nil || at != first {
		t.Errorf("of the commit it is %s, %v; of its files %s", at, err, first)
	}
	write("a/a_test.go", "package a\n")
	write("a/README.md", "text\n")
	write("c/c.go", "package c // more\n")
	write("b/b.go", "// Package b is b.\npackage   b\n")
	if now() != first {
		t.Error("a test, a page, another folder and a comment change the hash")
	}
	for _, name := range []string{"a/a.go", "a/deep/x.sql"} {
		before := now()
		write(name, "changed\n")
		if now() == before {
			t.Errorf("%s does not change the hash", name)
		}
	}
	if _, err := provenance.Hash(dir, []string{"none"}); err == nil {
		t.Error("a folder that is not there has a hash")
	}
}
