// Package provenance reads the marks of measured numbers on pages: the day, the commit and the command of the
// measurement, and a hash of the measured code without its comments. The hash shows when a number is older than that code.
package provenance

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Mark is what a page says of measured figures, in a line such as
//
//	Measured on 26 Nov 2026 at commit `c616526f` with `make bench`. <!-- of services/api shared/bus: 0123456789ab -->
type Mark struct {
	Day     string
	Commit  string
	Command string   // in backquotes, or other text that the pattern allows
	Of      []string // folders, including everything below them
	Hash    string   // hash of the folders at that commit; empty: not set yet
}

func (m Mark) String() string {
	return fmt.Sprintf("Measured on %s at commit `%s` with %s. <!-- of %s: %s -->", m.Day, m.Commit, m.Command, strings.Join(m.Of, " "), m.Hash)
}

// pattern is the line of a mark. A plus behind a commit says that something was not committed.
const pattern = "Measured on (\\d{1,2} [A-Z][a-z]{2} \\d{4}) at commit `([0-9a-f]{8}\\+?)` with (`[^`\n]+`|the command of each row|a trial that was not kept)\\.[^\n]*<!-- of ([a-z0-9/_. -]+): ([0-9a-f]*) ?-->"

// Begin identifies a mark in a text, even if the rest of it is wrong.
const Begin = "<!-- of "

// Read returns the marks of a text, in their order, with their positions.
func Read(text string) (marks []Mark, at []int) {
	for _, place := range regexp.MustCompile(pattern).FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string { return text[place[2*i]:place[2*i+1]] }
		marks = append(marks, Mark{Day: part(1), Commit: part(2), Command: part(3), Of: strings.Fields(part(4)), Hash: part(5)})
		at = append(at, place[0])
	}
	return marks, at
}

// Hash returns the hash of the present files of the folders below root.
func Hash(root string, folders []string) (string, error) {
	files, code := os.DirFS(root), make(map[string][]byte)
	for _, folder := range folders {
		err := fs.WalkDir(files, folder, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !counts(name) {
				return err
			}
			code[name], err = fs.ReadFile(files, name)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("hash what figures measure: %w", err)
		}
	}
	return hash(code), nil
}

// HashAt returns the hash of the folders' files at a commit.
func HashAt(ctx context.Context, root, commit string, folders []string) (string, error) {
	packed, err := git(ctx, root, "archive", commit)
	if err != nil {
		return "", err
	}
	code := make(map[string][]byte)
	for files := tar.NewReader(strings.NewReader(packed)); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return hash(code), nil
		}
		below := func(folder string) bool { return strings.HasPrefix(header.Name, folder+"/") }
		if err == nil && header.Typeflag == tar.TypeReg && counts(header.Name) && slices.ContainsFunc(folders, below) {
			code[header.Name], err = io.ReadAll(files)
		}
		if err != nil {
			return "", fmt.Errorf("read the files of commit %s: %w", commit, err)
		}
	}
}

// Commit returns the measured commit: the last one, with a plus when there are uncommitted changes. Root is the root
// of the repository.
func Commit(ctx context.Context) (root, commit string, err error) {
	if root, err = git(ctx, "", "rev-parse", "--show-toplevel"); err != nil {
		return "", "", err
	}
	root = strings.TrimSpace(root)
	if commit, err = git(ctx, root, "rev-parse", "--short=8", "HEAD"); err != nil {
		return "", "", err
	}
	commit = strings.TrimSpace(commit)
	changed, err := git(ctx, root, "status", "--porcelain", "--untracked-files=no")
	if changed != "" {
		commit += "+"
	}
	return root, commit, err
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // folders and commits stand in our own pages
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// counts reports whether a file counts for the hash: it is code that runs, not a test and not a page.
func counts(name string) bool {
	switch path.Ext(name) {
	case ".sql":
		return true
	case ".go":
		return !strings.HasSuffix(name, "_test.go")
	}
	return false
}

// hash returns the hash of files by their names. Comments and blanks of Go do not count: they cost nothing.
func hash(code map[string][]byte) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(code)) {
		text := code[name]
		if path.Ext(name) == ".go" {
			text = tokens(text)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// tokens returns the tokens of Go code, one a line, without comments.
func tokens(code []byte) []byte {
	var s scanner.Scanner
	var b bytes.Buffer
	file := token.NewFileSet()
	s.Init(file.AddFile("", file.Base(), len(code)), code, nil, 0)
	for {
		_, kind, text := s.Scan()
		if kind == token.EOF {
			return b.Bytes()
		}
		fmt.Fprintf(&b, "%s %s\n", kind, text)
	}
}
