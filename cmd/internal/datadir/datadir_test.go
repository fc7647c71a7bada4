package datadir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/shared/domain"
)

func open(t *testing.T, path string) *datadir.Dir {
	t.Helper()
	dir, err := datadir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func TestKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	dir := open(t, path)
	made := 0
	fresh := func() string { made++; return "a key" }
	for range 2 {
		if key, err := dir.Key(datadir.AdminKey, fresh); err != nil || key.Reveal() != "a key" {
			t.Fatalf("key: %q, %v", key.Reveal(), err)
		}
	}
	if made != 1 {
		t.Errorf("the key was made %d times", made)
	}
	if info, err := os.Stat(filepath.Join(path, datadir.AdminKey)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory: %v, %v", info.Mode(), err)
	}
	if key, err := datadir.ReadKey(path, datadir.AdminKey); err != nil || key != domain.Secret("a key") {
		t.Errorf("the key can't be read while the directory is locked: %v", err)
	}
	if _, err := datadir.ReadKey(path, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key that is not there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(path, datadir.EncryptionKey), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Key(datadir.EncryptionKey, fresh); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty key file: %v; a new key would make the sealed data unreadable", err)
	}
}

func TestDirectoryHasOneUser(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	first := open(t, path)
	if _, err := datadir.Open(path); err == nil || !strings.Contains(err.Error(), "is in use by another waybill process (pid ") {
		t.Fatalf("second process: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestAddressesAreThereWhileItRuns(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	if _, err := datadir.Announced(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("an empty directory announces addresses")
	}
	dir, err := datadir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want := datadir.Addresses{API: "http://127.0.0.1:1", Receiver: "http://127.0.0.1:2"}
	if err := dir.Announce(want); err != nil {
		t.Fatal(err)
	}
	if got, err := datadir.Announced(path); err != nil || got != want {
		t.Errorf("announced: %+v, %v", got, err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Announced(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the addresses are still there at the end")
	}
}

func TestDirectoryThatCannotBe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(file, "data")
	want := "data directory " + path + " can't be written to (not a directory): make it writable, or choose another with --data"
	if _, err := datadir.Open(path); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
