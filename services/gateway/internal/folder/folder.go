// Package folder has route files in memory: those of a folder as it was at one moment, or those of
// an uploaded archive. Nothing is ever written to disk.
package folder

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// Bounds of a folder of route files.
const (
	maxFiles     = 2000
	maxDepth     = 8
	maxRouteFile = 16 << 20
	maxTotal     = 64 << 20
	// settled is the age from which the time of a file shows whether the file was changed: two
	// changes within one tick of the file system's clock have the same time.
	settled = 2 * time.Second
)

// Folder holds the contents of a folder of route files at one moment. Sites are made from a Folder
// and never read the disk again: so their files fit together, and no option leads out of the
// folder. Files and folders with names that begin with a dot are left out.
type Folder struct {
	files map[string]*file // by path
	names map[string][]string
	total int64
}

// file is a file of a Folder. The content of a file that is longer than an answer may be is not
// kept, unless it is a route file.
type file struct {
	size    int64
	changed time.Time
	read    time.Time
	body    []byte
	sum     [sha256.Size]byte
	long    bool
}

// Read reads dir. Files that before already has in their present version are not read again; before
// may be nil.
func Read(dir string, before *Folder) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the route files: %w", err)
	}
	defer root.Close()
	f := &Folder{files: make(map[string]*file), names: make(map[string][]string)}
	if err := f.readDir(root.FS(), ".", 0, before); err != nil {
		return nil, fmt.Errorf("read the folder of the route files: %w", err)
	}
	return f, nil
}

// fromFiles returns a folder with these files, by their paths. The caller has kept to the bounds.
func fromFiles(files map[string][]byte) *Folder {
	f := &Folder{files: make(map[string]*file, len(files)), names: make(map[string][]string)}
	for name, body := range files {
		f.files[name] = &file{size: int64(len(body)), body: body, sum: sha256.Sum256(body)}
		f.total += int64(len(body))
		for dir, base := path.Dir(name), path.Base(name); ; dir, base = path.Dir(dir), path.Base(dir) {
			there := f.names[dir] != nil
			f.names[dir] = append(f.names[dir], base)
			if there || dir == "." {
				break
			}
		}
	}
	return f
}

func (f *Folder) readDir(root fs.FS, dir string, depth int, before *Folder) error {
	if depth > maxDepth {
		return fmt.Errorf("%s is deeper than %d folders", dir, maxDepth)
	}
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		name := path.Join(dir, entry.Name())
		// Not entry.Info: that would be the symbolic link.
		info, err := fs.Stat(root, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // it was deleted while the folder was read
		case err != nil:
			return err
		case info.IsDir():
			err = f.readDir(root, name, depth+1, before)
		case info.Mode().IsRegular():
			err = f.addFile(root, name, info, before)
		default:
			continue
		}
		if err != nil {
			return err
		}
		f.names[dir] = append(f.names[dir], entry.Name())
	}
	return nil
}

// addFile adds a file. The file is read unless before has it.
func (f *Folder) addFile(root fs.FS, name string, info fs.FileInfo, before *Folder) error {
	if len(f.files) >= maxFiles {
		return fmt.Errorf("it has more than %d files", maxFiles)
	}
	known := before.unchangedFile(name, info)
	if known == nil {
		known = &file{size: info.Size(), changed: info.ModTime(), read: time.Now()}
		limit := int64(route.MaxResponse)
		if isRouteFile(name) {
			limit = maxRouteFile
		}
		if known.long = info.Size() > limit; !known.long {
			body, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			known.body, known.sum = body, sha256.Sum256(body)
		}
	}
	f.files[name] = known
	if f.total += int64(len(known.body)); f.total > maxTotal {
		return fmt.Errorf("its files have more than %d MiB", maxTotal>>20)
	}
	return nil
}

// unchangedFile returns the file, if it can't have changed since it was read.
func (f *Folder) unchangedFile(name string, info fs.FileInfo) *file {
	if f == nil {
		return nil
	}
	known := f.files[name]
	if known == nil || known.size != info.Size() || !known.changed.Equal(info.ModTime()) || known.read.Sub(known.changed) < settled {
		return nil
	}
	return known
}

func isRouteFile(name string) bool {
	return !strings.Contains(name, "/") && (strings.HasSuffix(name, routefile.Suffix) || name == routefile.PolicyFile)
}

// HasRouteFiles reports whether there is a route file in dir.
func HasRouteFiles(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(entry fs.DirEntry) bool {
		return strings.HasSuffix(entry.Name(), routefile.Suffix)
	})
}

// Equal reports whether both folders have the same contents.
func (f *Folder) Equal(other *Folder) bool {
	if other == nil || len(f.files) != len(other.files) {
		return false
	}
	for name, one := range f.files {
		another := other.files[name]
		if another == nil || one.sum != another.sum || one.long != another.long || one.long && !one.changed.Equal(another.changed) {
			return false
		}
	}
	return true
}

var errLong = fmt.Errorf("the file is longer than %d bytes", route.MaxResponse)

// Open implements fs.FS.
func (f *Folder) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if known := f.files[name]; known != nil {
		if known.long {
			return nil, &fs.PathError{Op: "open", Path: name, Err: errLong}
		}
		return &openFile{Reader: bytes.NewReader(known.body), info: fileInfo{name: path.Base(name), file: known}}, nil
	}
	if names := f.names[name]; names != nil || name == "." {
		return &openDir{info: fileInfo{name: path.Base(name)}, entries: f.entries(name)}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (f *Folder) entries(dir string) []fs.DirEntry {
	entries := make([]fs.DirEntry, len(f.names[dir]))
	for i, name := range f.names[dir] {
		entries[i] = fs.FileInfoToDirEntry(fileInfo{name: name, file: f.files[path.Join(dir, name)]})
	}
	return entries
}
