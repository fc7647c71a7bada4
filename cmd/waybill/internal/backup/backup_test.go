package backup_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/waybill/internal/backup"
	"waybill.dev/shared/store"
)

var quiet = slog.New(slog.DiscardHandler)

// installation makes a data directory with a database and keys, which somebody has open.
func installation(t *testing.T) backup.Source {
	t.Helper()
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	db, err := store.Open(t.Context(), store.Options{URL: dir.Database().Reveal(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{datadir.AdminKey, datadir.EncryptionKey} {
		if _, err := dir.Key(name, func() string { return "the " + name }); err != nil {
			t.Fatal(err)
		}
	}
	return backup.Source{
		Dir: dir.Path(), DatabaseURL: dir.Database().Reveal(), Version: "v1", Logger: quiet,
		Keys: []string{datadir.AdminKey, datadir.EncryptionKey},
	}
}

func write(t *testing.T) (file string, made backup.Manifest) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "backup.tar")
	made, err := backup.Write(t.Context(), installation(t), file)
	if err != nil {
		t.Fatal(err)
	}
	return file, made
}

func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	file, made := write(t)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
		t.Errorf("beside the file lies %v", left)
	}
	if _, err := backup.Write(t.Context(), installation(t), file); err == nil || !strings.Contains(err.Error(), "overwrites nothing") {
		t.Errorf("a second backup: %v", err)
	}
	to := filepath.Join(t.TempDir(), "restored")
	if err := os.Mkdir(to, 0o755); err != nil { // empty, and open to others
		t.Fatal(err)
	}
	read, err := backup.Restore(t.Context(), file, to, quiet)
	if err != nil || read.Migration != made.Migration || len(read.Files) != 3 || read.Waybill != "v1" {
		t.Fatalf("%+v, %v", read, err)
	}
	for name, mode := range map[string]os.FileMode{"": 0o700, datadir.Database: 0o600, datadir.AdminKey: 0o600, datadir.EncryptionKey: 0o600} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%q: %v, %v", name, info, err)
		}
	}
	if key, err := datadir.ReadKey(to, datadir.EncryptionKey); err != nil || key.Reveal() != "the encryption.key" {
		t.Errorf("the key: %v", err)
	}
	if _, err := backup.Restore(t.Context(), file, to, quiet); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("into a directory that is not empty: %v", err)
	}
	held, err := datadir.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := backup.Restore(t.Context(), file, to, quiet); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("into a directory in use: %v", err)
	}
}

func TestBackupOfNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "backup.tar")
	from := backup.Source{Dir: dir, DatabaseURL: "sqlite:" + filepath.Join(t.TempDir(), "empty.db"), Logger: quiet}
	if _, err := backup.Write(t.Context(), from, file); err == nil || !strings.Contains(err.Error(), "nothing to back up") {
		t.Errorf("of an empty database: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

type entry struct {
	header  *tar.Header
	content []byte
}

// rewrite changes the entries of a backup.
func rewrite(t *testing.T, file string, change func([]entry) []entry) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var entries []entry
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{header, content})
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range change(entries) {
		e.header.Size = int64(len(e.content))
		if err := w.WriteHeader(e.header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "changed.tar")
	if err := os.WriteFile(changed, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return changed
}

// manifest changes the manifest alone.
func manifest(change func(*backup.Manifest)) func([]entry) []entry {
	return func(entries []entry) []entry {
		var m backup.Manifest
		_ = json.Unmarshal(entries[0].content, &m)
		change(&m)
		entries[0].content, _ = json.Marshal(m)
		return entries
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	file, _ := write(t)
	rows := map[string]struct {
		change func([]entry) []entry
		says   string
	}{
		"a bit of the database is another one": {func(e []entry) []entry { e[1].content[5000] ^= 1; return e }, "is damaged"},
		"a key is another one":                 {func(e []entry) []entry { e[2].content[0] ^= 1; return e }, "is damaged"},
		"a file is missing":                    {func(e []entry) []entry { return e[:3] }, "is damaged"},
		"a file is shorter":                    {func(e []entry) []entry { e[1].content = e[1].content[:4096]; return e }, "is damaged"},
		"something follows":                    {func(e []entry) []entry { return append(e, e[3]) }, "something follows"},
		"it has no manifest":                   {func(e []entry) []entry { return e[1:] }, "is not a backup"},
		"it is of a later format":              {manifest(func(m *backup.Manifest) { m.Format = 2 }), "later version"},
		"it has no database":                   {manifest(func(m *backup.Manifest) { m.Files = m.Files[1:] }), "has no database"},
		"it names a file elsewhere":            {manifest(func(m *backup.Manifest) { m.Files[1].Name = "../encryption.key" }), "does not have"},
		"it names a file twice":                {manifest(func(m *backup.Manifest) { m.Files[2].Name = m.Files[1].Name }), "does not have"},
		"it is a link": {func(e []entry) []entry {
			e[2].header.Typeflag, e[2].header.Linkname, e[2].content = tar.TypeSymlink, "/etc/passwd", nil
			return e
		}, "is damaged"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := rewrite(t, file, row.change)
			to := filepath.Join(t.TempDir(), "restored")
			if _, err := backup.Restore(t.Context(), changed, to, quiet); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v", err)
			}
			if left, _ := os.ReadDir(to); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
	if _, err := backup.Restore(t.Context(), filepath.Join(t.TempDir(), "none"), t.TempDir(), quiet); err == nil {
		t.Error("of a file that is not there")
	}
}
