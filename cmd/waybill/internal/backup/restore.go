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
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/shared/store"
)

// maxManifest bounds the size of a manifest.
const maxManifest = 1 << 20

// ErrNoBackup is returned for a file that is not a backup.
var ErrNoBackup = errors.New("is not a backup of waybill, or it is damaged")

// Restore makes an installation from a backup in a directory that is missing or empty. If it fails,
// the directory is left empty. Each file is used only after its checksum was verified.
func Restore(ctx context.Context, from, to string, log *slog.Logger) (made Manifest, err error) {
	file, err := os.Open(from)
	if err != nil {
		return Manifest{}, fmt.Errorf("read backup: %w", err)
	}
	defer file.Close()
	archive := tar.NewReader(file)
	if made, err = readManifest(archive); err != nil {
		return Manifest{}, fmt.Errorf("%s %w", from, err)
	}
	dir, err := datadir.Fresh(to)
	if err != nil {
		return Manifest{}, err
	}
	defer func() {
		err = errors.Join(err, dir.Close())
		if err != nil {
			err = errors.Join(err, empty(dir.Path()))
		}
	}()
	const partial = datadir.Database + ".restoring"
	for _, want := range made.Files {
		name := want.Name
		if name == datadir.Database {
			name = partial // so that half a restore is not an installation
		}
		if err := unpack(archive, want, func(content io.Reader) error { return dir.Put(name, content) }); err != nil {
			return Manifest{}, fmt.Errorf("%s: %w", from, err)
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return Manifest{}, fmt.Errorf("%s %w: something follows its last file", from, ErrNoBackup)
	}
	if err := ready(ctx, dir.File(partial), log); err != nil {
		return Manifest{}, err
	}
	if err := os.Rename(dir.File(partial), dir.File(datadir.Database)); err != nil {
		return Manifest{}, fmt.Errorf("put the database in place: %w", err)
	}
	return made, syncFolder(dir.Path())
}

// readManifest reads the first entry and checks that this program can restore the backup.
func readManifest(archive *tar.Reader) (Manifest, error) {
	header, err := archive.Next()
	if err != nil || header.Name != manifestName || header.Size > maxManifest {
		return Manifest{}, ErrNoBackup
	}
	var made Manifest
	if err := json.NewDecoder(io.LimitReader(archive, maxManifest)).Decode(&made); err != nil || made.Format < 1 {
		return Manifest{}, ErrNoBackup
	}
	if made.Format > format {
		return Manifest{}, fmt.Errorf("was written by a later version of waybill (%s): restore it with that", made.Waybill)
	}
	if !made.Has(datadir.Database) {
		return Manifest{}, fmt.Errorf("%w: it has no database", ErrNoBackup)
	}
	var seen []string
	for _, f := range made.Files {
		if !slices.Contains(contents(), f.Name) || slices.Contains(seen, f.Name) || f.Size < 0 {
			return Manifest{}, fmt.Errorf("%w: it names a file that a backup does not have", ErrNoBackup)
		}
		seen = append(seen, f.Name)
	}
	return made, nil
}

// unpack passes the next entry to keep, and checks it against the manifest.
func unpack(archive *tar.Reader, want File, keep func(io.Reader) error) error {
	header, err := archive.Next()
	if err != nil || header.Name != want.Name || header.Size != want.Size || header.Typeflag != tar.TypeReg {
		return fmt.Errorf("%s %w", want.Name, errDamaged)
	}
	sum := sha256.New()
	content := io.TeeReader(archive, sum)
	if err := keep(content); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s %w", want.Name, errDamaged)
		}
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want.SHA256 {
		return fmt.Errorf("%s %w", want.Name, errDamaged)
	}
	return nil
}

var errDamaged = errors.New("is not as the manifest says: the backup is damaged")

// ready migrates a restored database to the version of this program.
func ready(ctx context.Context, path string, log *slog.Logger) (err error) {
	db, err := store.Open(ctx, store.Options{URL: "sqlite:" + path, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	schema, err := db.Schema(ctx)
	if err != nil {
		return err
	}
	if schema.Newer() {
		return fmt.Errorf("the backup's database was migrated by a later version of waybill (migration %d; this one knows %d): restore it with that version",
			schema.Applied, schema.Newest)
	}
	if _, err := db.Migrate(ctx); err != nil {
		return err
	}
	return db.Restored(ctx)
}

// empty removes the files of a failed restore. The directory was empty before.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("clear %s: %w", dir, err)
	}
	var faults []error
	for _, entry := range entries {
		faults = append(faults, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return errors.Join(faults...)
}
