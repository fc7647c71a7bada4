// Package provenance reads the marks of measured numbers on pages: the day, the commit and the command of the
// measurement, and a hash of the measured code. The hash shows when a number is older than that code.
package provenance

import (
	"context"
	"crypto/sha1" //nolint:gosec // Git names a file's content by it; nobody is kept out with it
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
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
	files, blobs := os.DirFS(root), make(map[string]string)
	for _, folder := range folders {
		err := fs.WalkDir(files, folder, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !counts(name) {
				return err
			}
			content, err := fs.ReadFile(files, name)
			sum := sha1.Sum(slices.Concat(fmt.Appendf(nil, "blob %d\x00", len(content)), content)) //nolint:gosec // as Git does
			blobs[name] = hex.EncodeToString(sum[:])
			return err
		})
		if err != nil {
			return "", fmt.Errorf("hash what figures measure: %w", err)
		}
	}
	return hash(blobs), nil
}

// HashAt returns the hash of the folders' files at a commit.
func HashAt(ctx context.Context, root, commit string, folders []string) (string, error) {
	text, err := git(ctx, root, append([]string{"ls-tree", "-r", commit, "--"}, folders...)...)
	if err != nil {
		return "", err
	}
	blobs := make(map[string]string)
	for line := range strings.Lines(text) {
		entry, name, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if fields := strings.Fields(entry); ok && len(fields) == 3 && counts(name) {
			blobs[name] = fields[2]
		}
	}
	return hash(blobs), nil
}

// Commit returns the measured commit: the last one, with a plus when there are uncommitted changes. Root is the root
// of the repository.
func Commit(ctx context.Context) (root, commit string, err error) {
	if root, err = git(ctx, "", "rev-parse", "--show-toplevel"); err != nil {
		return "", "", err
	}
	if commit, err = git(ctx, root, "rev-parse", "--short=8", "HEAD"); err != nil {
		return "", "", err
	}
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
	return strings.TrimSpace(string(out)), nil
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

func hash(blobs map[string]string) string {
	names := make([]string, 0, len(blobs))
	for name := range blobs {
		names = append(names, name)
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprintf(sum, "%s %s\n", name, blobs[name])
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}
