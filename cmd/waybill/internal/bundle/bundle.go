// Package bundle makes the archive of a folder of route files that `waybill deploy` uploads.
package bundle

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"

	"waybill.dev/cmd/internal/datadir"
)

// Bounds of an upload. A server refuses more; the command says so before anything is read.
const (
	MaxFiles = 1000
	MaxSize  = 32 << 20 // total size of the files, in bytes
)

// ContentType is the type of the archive.
const ContentType = "application/zip"

const (
	routeFiles = ".oas.json" // the end of a route file's name
	subfolder  = "config"    // a folder that is searched for route files first
)

// Bundle is a folder that can be uploaded.
type Bundle struct {
	Archive []byte   // a zip; the same files make the same bytes
	Files   int      // number of files
	Size    int64    // total size of the files, in bytes
	LeftOut []string // files that the rules leave out; a folder ends with / and stands for all its contents
}

// RefusedError lists the contents of a folder that can't be uploaded.
type RefusedError struct{ Reasons []string }

func (e *RefusedError) Error() string { return strings.Join(e.Reasons, "\n  ") }

// Make reads a folder. If it has a folder config with route files, only that is uploaded.
func Make(dir string) (*Bundle, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", plain(dir, err))
	}
	defer root.Close()
	p := &packer{files: root.FS(), within: ".", rules: rules{usual: parse(".", usual)}}
	if p.hasRoutes(subfolder) {
		p.within = subfolder
	} else if !p.hasRoutes(".") { // a folder that was given by mistake may have many files below it
		return nil, fmt.Errorf("there is no route file (*%s) in %s", routeFiles, dir)
	}
	if err := p.find(); err != nil {
		return nil, fmt.Errorf("read the folder: %w", err)
	}
	if err := p.check(path.Join(dir, p.within)); err != nil {
		return nil, err
	}
	archive, err := p.pack()
	if err != nil {
		return nil, fmt.Errorf("pack the folder: %w", err)
	}
	return &Bundle{Archive: archive, Files: len(p.found), Size: p.size, LeftOut: p.leftOut}, nil
}

// plain reduces an error of the file system to the system's own message.
func plain(name string, err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", name, failed.Err)
	}
	return err
}

// packer reads one folder.
type packer struct {
	files  fs.FS
	within string // the folder with the route files
	rules  rules

	found   []file
	size    int64
	leftOut []string
	refused []string
}

type file struct {
	name string
	size int64
}

func (p *packer) hasRoutes(folder string) bool {
	names, err := fs.Glob(p.files, path.Join(folder, "*"+routeFiles))
	return err == nil && len(names) > 0
}

// find lists the files that the rules leave in.
func (p *packer) find() error {
	if err := p.rules.read(p.files, ".", ownRules); err != nil {
		return err
	}
	return fs.WalkDir(p.files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return p.rules.read(p.files, name, gitRules)
		case p.within != "." && name != p.within && !strings.HasPrefix(name, p.within+"/"):
			return skip(entry)
		case p.never(name, entry) || p.rules.ignore(name, entry.IsDir()):
			if entry.IsDir() {
				p.leftOut = append(p.leftOut, name+"/")
			} else {
				p.leftOut = append(p.leftOut, name)
			}
			return skip(entry)
		case entry.IsDir():
			return p.rules.read(p.files, name, gitRules)
		}
		return p.add(name, entry)
	})
}

// skip leaves out a file, or a folder with all its contents.
func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// never reports whether an entry is not uploaded whatever the rules say: hidden files, which
// gateways ignore, and the data of an installation with its keys.
func (p *packer) never(name string, entry fs.DirEntry) bool {
	if strings.HasPrefix(path.Base(name), ".") {
		return true
	}
	if !entry.IsDir() {
		return false
	}
	for _, key := range []string{datadir.AdminKey, datadir.EncryptionKey} {
		if _, err := fs.Lstat(p.files, path.Join(name, key)); err == nil {
			return true
		}
	}
	return false
}

func (p *packer) add(name string, entry fs.DirEntry) error {
	if !entry.Type().IsRegular() {
		what := "is neither a file nor a folder"
		if entry.Type()&fs.ModeSymlink != 0 {
			what = "is a link"
		}
		p.refused = append(p.refused, fmt.Sprintf("%s %s", printable(name), what))
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	p.found, p.size = append(p.found, file{name, info.Size()}), p.size+info.Size()
	return nil
}

// check refuses folders that every server would refuse.
func (p *packer) check(dir string) error {
	if len(p.refused) > 0 {
		return &RefusedError{append([]string{"only files and folders can be uploaded. Replace the following, or name them in " + ownRules + ":"}, p.refused...)}
	}
	if len(p.found) > MaxFiles || p.size > MaxSize {
		reasons := []string{fmt.Sprintf("%s has %d files of %s; an upload has at most %d files of %s. Name in %s what is not needed. The largest are:",
			dir, len(p.found), Bytes(p.size), MaxFiles, Bytes(MaxSize), ownRules)}
		slices.SortStableFunc(p.found, func(a, b file) int { return int(b.size - a.size) })
		for _, one := range p.found[:min(len(p.found), 5)] {
			reasons = append(reasons, fmt.Sprintf("%s, %s", printable(one.name), Bytes(one.size)))
		}
		return &RefusedError{reasons}
	}
	return nil
}

// pack writes the archive. It leaves out times, so that the archive depends only on the files.
func (p *packer) pack() ([]byte, error) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, one := range p.found {
		content, err := fs.ReadFile(p.files, one.name)
		if err != nil {
			return nil, err
		}
		entry, err := w.CreateHeader(&zip.FileHeader{Name: one.name, Method: zip.Deflate})
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// printable replaces characters that could control a terminal.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, name)
}

// Bytes writes a size for a person.
func Bytes(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
