//go:build unix

package datadir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/cmd/internal/datadir"
)

// chmod is os.Chmod, which no umask takes anything from.
func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestADirectoryThatWasOpenIsMadePrivate(t *testing.T) {
	t.Parallel()
	for _, before := range []fs.FileMode{0o777, 0o755, 0o770, 0o700} {
		path := filepath.Join(t.TempDir(), "data")
		if err := os.MkdirAll(filepath.Join(path, "nats"), 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(path, datadir.AdminKey)
		if err := os.WriteFile(file, []byte("a key"), 0o600); err != nil {
			t.Fatal(err)
		}
		chmod(t, file, 0o644)
		chmod(t, filepath.Join(path, "nats"), 0o755)
		chmod(t, path, before)
		dir := open(t, path)
		if mode(t, path) != 0o700 || mode(t, file) != 0o600 || mode(t, filepath.Join(path, "nats")) != 0o700 {
			t.Errorf("%04o: the directory has mode %04o, the key %04o, the bus %04o", before, mode(t, path), mode(t, file), mode(t, filepath.Join(path, "nats")))
		}
		told := strings.Join(dir.Tightened(), "\n")
		if !strings.Contains(told, file+" (mode 0644)") || before != 0o700 && !strings.Contains(told, path+" (mode 0") {
			t.Errorf("%04o: it tells of %q", before, told)
		}
		if err := dir.Close(); err != nil {
			t.Fatal(err)
		}
		if again := open(t, path).Tightened(); len(again) > 0 {
			t.Errorf("%04o: opened again it tells of %q", before, again)
		}
	}
}

// An address that somebody else may have written is no place for a key.
func TestAddressesOfOthersAreNotTrusted(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	file := filepath.Join(path, "addresses.json")
	if err := os.WriteFile(file, []byte(`{"api":"http://127.0.0.1:1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, modes := range []struct {
		directory, file fs.FileMode
		trusted         bool
	}{
		{0o700, 0o600, true}, {0o755, 0o644, true}, {0o777, 0o600, false}, {0o700, 0o666, false}, {0o770, 0o600, false}, {0o700, 0o620, false},
	} {
		chmod(t, path, modes.directory)
		chmod(t, file, modes.file)
		got, err := datadir.Announced(path)
		if trusted := err == nil; trusted != modes.trusted || trusted != (got.API != "") {
			t.Errorf("%04o/%04o: %+v, %v", modes.directory, modes.file, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "is not trusted") {
			t.Errorf("%04o/%04o: %v", modes.directory, modes.file, err)
		}
	}
	chmod(t, path, 0o700)
	chmod(t, file, 0o600)
	if os.Getuid() != 0 {
		return // only root can give a file away
	}
	if err := os.Chown(file, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if got, err := datadir.Announced(path); err == nil {
		t.Errorf("a file of another user: %+v", got)
	}
	// Nor is a key that lay where everybody could put one.
	chmod(t, path, 0o777)
	if _, err := datadir.Open(path); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("a directory with a file of another user: %v", err)
	}
}
