// Command manual writes the files that packages contain in addition to the programs: manual pages
// and shell completion. Both are made from the commands and settings themselves.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/waybill/internal/cli"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "Usage: manual FOLDER VERSION")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func write(dir, version string) error {
	date, err := buildDate(os.LookupEnv)
	if err != nil {
		return err
	}
	root := cli.Command(version)
	for _, p := range append(commandPages(root), servicePages()...) {
		p.version, p.date = version, date
		place := filepath.Join(dir, "man", "man"+strconv.Itoa(p.section), p.file())
		if err := create(place, p.write); err != nil {
			return err
		}
	}
	for name, generate := range completions(root) {
		if err := create(filepath.Join(dir, "completions", name), generate); err != nil {
			return err
		}
	}
	return nil
}

// completions returns a function for each shell that writes its completion, by file name.
func completions(root *cobra.Command) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"waybill.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_waybill":     root.GenZshCompletion,
		"waybill.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"waybill.ps1":  root.GenPowerShellCompletionWithDesc,
	}
}

// buildDate returns the day of the build from SOURCE_DATE_EPOCH, so that the same source makes the
// same pages, or none.
func buildDate(lookup func(string) (string, bool)) (string, error) {
	text, ok := lookup("SOURCE_DATE_EPOCH")
	if !ok {
		return "", nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", fmt.Errorf("read SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC().Format(time.DateOnly), nil
}

func create(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // everybody may read the manual
		return fmt.Errorf("make folder: %w", err)
	}
	file, err := os.Create(path) //nolint:gosec // whoever builds says where
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	if err := write(file); err != nil {
		_ = file.Close() // the first error is returned
		return fmt.Errorf("write %s: %w", path, err)
	}
	return file.Close()
}
