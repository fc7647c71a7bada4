// Package backup writes a running all-in-one installation into one file, and makes an installation from such a file.
// The file has the database and the keys. The bus is left out: an installation that starts with an empty bus sends
// everything that the database holds and that was not delivered.
package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/shared/store"
)

// format is the version of the file. A later version of the program reads all earlier ones.
const format = 1

// manifestName is the first entry of the file.
const manifestName = "manifest.json"

// Manifest describes the contents of a backup.
type Manifest struct {
	Format    int       `json:"format"`
	CreatedAt time.Time `json:"createdAt"`
	// Waybill is the version of the program that wrote the backup.
	Waybill   string `json:"waybill"`
	Migration int64  `json:"migration"` // of the database
	Files     []File `json:"files"`
}

// File is a file of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Has reports whether the backup has a file.
func (m *Manifest) Has(name string) bool {
	for _, f := range m.Files {
		if f.Name == name {
			return true
		}
	}
	return false
}

// Source is the installation to back up.
type Source struct {
	Dir         string // the data directory
	DatabaseURL string // sqlite:FILE
	Version     string // of this program
	// Keys are the names of the keys that are in the directory and in use: a key from the settings is not backed up.
	Keys   []string
	Logger *slog.Logger
}

// Write writes a backup to a new file that only its owner can read. Meanwhile a copy of the database is in the same
// folder, so the disk needs room for both.
func Write(ctx context.Context, from Source, to string) (made Manifest, err error) {
	if _, err := os.Lstat(to); err == nil {
		return Manifest{}, fmt.Errorf("%s is there already: a backup overwrites nothing", to)
	}
	work, err := os.MkdirTemp(filepath.Dir(to), ".waybill-backup-*") // MkdirTemp uses mode 0700
	if err != nil {
		return Manifest{}, fmt.Errorf("make a folder for the copy: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	made = Manifest{Format: format, CreatedAt: time.Now().UTC().Truncate(time.Second), Waybill: from.Version}
	copied := filepath.Join(work, datadir.Database)
	if made.Migration, err = copyDatabase(ctx, from, copied); err != nil {
		return Manifest{}, err
	}
	paths := map[string]string{datadir.Database: copied}
	for _, name := range from.Keys {
		paths[name] = filepath.Join(from.Dir, name)
	}
	for _, name := range contents() {
		path, ok := paths[name]
		if !ok {
			continue
		}
		file, err := describe(name, path)
		if err != nil {
			return Manifest{}, err
		}
		made.Files = append(made.Files, file)
	}
	whole := filepath.Join(work, "backup.tar")
	if err := pack(whole, &made, paths); err != nil {
		return Manifest{}, err
	}
	// Unlike a rename, a link does not overwrite a file that has appeared in the meantime.
	if err := os.Link(whole, to); errors.Is(err, fs.ErrExist) {
		return Manifest{}, fmt.Errorf("%s is there already: a backup overwrites nothing", to)
	} else if err != nil {
		if err := os.Rename(whole, to); err != nil { // a file system without links
			return Manifest{}, fmt.Errorf("put the backup in place: %w", err)
		}
	}
	return made, syncFolder(filepath.Dir(to))
}

// contents are the files that a backup may have, in their order.
func contents() []string {
	return []string{datadir.Database, datadir.EncryptionKey, datadir.AdminKey}
}

// copyDatabase copies the database into the file to, checks the whole copy, and returns the last migration applied in
// the copy.
func copyDatabase(ctx context.Context, from Source, to string) (migration int64, err error) {
	source, err := store.Open(ctx, store.Options{URL: from.DatabaseURL, Logger: from.Logger})
	if err != nil {
		return 0, err
	}
	err = source.CopyTo(ctx, to)
	if err := errors.Join(err, source.Close()); err != nil {
		return 0, err
	}
	copied, err := store.Open(ctx, store.Options{URL: "sqlite:" + to, ReadOnly: true, Logger: from.Logger})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	if err := copied.Intact(ctx); err != nil {
		return 0, err
	}
	schema, err := copied.Schema(ctx)
	if err == nil && schema.Applied == 0 {
		err = errors.New("the database has no tables: there is nothing to back up")
	}
	return schema.Applied, err
}

func describe(name, path string) (File, error) {
	file, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", name, err)
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", name, err)
	}
	return File{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// pack writes the file and forces it to the disk.
func pack(to string, made *Manifest, paths map[string]string) (err error) {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	w := tar.NewWriter(out)
	header := func(name string, size int64) error {
		return w.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: made.CreatedAt, Typeflag: tar.TypeReg})
	}
	if err := header(manifestName, int64(len(text))); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	for _, file := range made.Files {
		if err := header(file.Name, file.Size); err != nil {
			return fmt.Errorf("write backup: %w", err)
		}
		if err := add(w, paths[file.Name]); err != nil {
			return fmt.Errorf("write %s into the backup: %w", file.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := out.Sync(); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

func add(w io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// syncFolder forces the name of a new file to the disk.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("keep the name of the backup: %w", err)
	}
	defer folder.Close()
	_ = folder.Sync() // some file systems can't do this, and keep names in another way
	return nil
}
