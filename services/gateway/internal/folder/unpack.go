package folder

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"waybill.dev/services/gateway/internal/routefile"
)

// fault is a fault of an archive as a whole.
type fault string

func (f fault) Error() string { return string(f) }

const (
	errFiles fault = "has too many files: 1,000 are allowed"
	errTotal fault = "has more than 32 MiB, unpacked"
)

// unpacking gathers the files of an archive and their faults.
type unpacking struct {
	ctx     context.Context //nolint:containedctx // of the unpacking, which is one call
	files   map[string][]byte
	known   map[string]bool // files and folders by name in one case of letters; true: a file
	entries int
	count   int   // number of files
	total   int64 // number of bytes
	faults  routefile.Faults
	body    bytes.Buffer // content of the file that is being read
}

func newUnpacking(ctx context.Context) *unpacking {
	return &unpacking{ctx: ctx, files: make(map[string][]byte), known: make(map[string]bool)}
}

// maxName bounds a name in a fault, in bytes.
const maxName = 200

func (u *unpacking) fault(name, message string) {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(name, string(utf8.RuneError)))
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "…"
	}
	u.faults = append(u.faults, routefile.Fault{File: name, Message: message})
}

// takeEntry takes an entry. A returned error is about the archive; faults of the entry are noted.
func (u *unpacking) takeEntry(written string, kind fs.FileMode, open func() (io.ReadCloser, error)) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	u.entries++
	if u.entries > maxEntries {
		return errFiles
	}
	name, wrong := nameOf(written)
	switch {
	case wrong != "":
		u.fault(written, wrong)
		return nil
	case kind&fs.ModeSymlink != 0:
		u.fault(written, "is a link")
		return nil
	case kind.IsDir() || name == ".":
		return nil
	case kind != 0:
		u.fault(written, "is neither a file nor a folder")
		return nil
	}
	u.count++
	if u.count > maxPackedFiles {
		return errFiles
	}
	if leftOut(name) {
		return nil
	}
	if wrong := u.addName(name); wrong != "" {
		u.fault(written, wrong)
		return nil
	}
	body, err := u.read(name, open)
	if err != nil || body == nil {
		return err
	}
	u.files[name] = body
	return nil
}

// nameOf returns the name of an entry, or its fault. A name may begin with ./ and end with a slash,
// as archive programs write them.
func nameOf(written string) (name, wrong string) {
	switch {
	case !utf8.ValidString(written):
		return "", "has a name that is not UTF-8"
	case strings.ContainsRune(written, 0):
		return "", "has a NUL in its name"
	case strings.ContainsRune(written, '\\'):
		return "", `has a \ in its name; folders are separated by /`
	case strings.HasPrefix(written, "/"), len(written) > 1 && written[1] == ':':
		return "", "has an absolute name"
	}
	name = strings.TrimSuffix(written, "/")
	for strings.HasPrefix(name, "./") {
		name = name[len("./"):]
	}
	if !fs.ValidPath(name) {
		return "", "has a name that is no path within the archive"
	}
	if strings.Count(name, "/") > maxPackedDepth {
		return "", fmt.Sprintf("is deeper than %d folders", maxPackedDepth)
	}
	return name, ""
}

// addName notes that there is a file, or returns which name is there already: on file systems that
// ignore the case of letters, both would be the same file.
func (u *unpacking) addName(name string) (wrong string) {
	key := fold(name)
	if _, taken := u.known[key]; taken {
		return "is there twice, perhaps in another case of letters, or as a file and as a folder"
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if u.known[dir] {
			return "is in a folder of which there is a file, too"
		}
		u.known[dir] = false
	}
	u.known[key] = true
	return ""
}

// fold returns the same text for all texts that differ in the case of letters alone.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, text)
}

// read returns the content of a file; nil: the file is too long, or faulty.
func (u *unpacking) read(name string, open func() (io.ReadCloser, error)) ([]byte, error) {
	limit, what := int64(maxPackedFile), "1 MiB"
	if base := path.Base(name); strings.HasSuffix(base, routefile.Suffix) || base == routefile.PolicyFile {
		limit, what = maxPackedRouteFile, "4 MiB"
	}
	from, err := open()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	u.body.Reset()
	left := maxUnpacked - u.total
	n, err := io.Copy(&u.body, io.LimitReader(from, min(limit, left)+1))
	switch u.total += n; {
	case n > left:
		return nil, errTotal
	case n > limit:
		u.fault(name, "is longer than "+what)
		return nil, nil
	case err != nil:
		return nil, err
	}
	return append([]byte{}, u.body.Bytes()...), nil
}

// leftOut reports whether a file is left out: a hidden file, a file in a hidden folder, or a file
// that macOS adds to archives.
func leftOut(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part[0] == '.' || part == "__MACOSX" {
			return true
		}
	}
	return false
}

// result returns the folder of the route files. err is the error that has ended the unpacking.
func (u *unpacking) result(err error) (fs.FS, routefile.Faults) {
	if err != nil {
		message := err.Error()
		if isContextEnd(err) {
			message = "could not be unpacked in time"
		}
		u.faults = append(u.faults, routefile.Fault{Message: "the archive " + message})
	}
	if len(u.faults) > 0 {
		return nil, u.faults
	}
	u.stripFolder(u.topFolder())
	const config = "config"
	if slices.ContainsFunc(u.names(), func(name string) bool {
		return path.Dir(name) == config && strings.HasSuffix(name, routefile.Suffix)
	}) {
		u.stripFolder(config)
	}
	return fromFiles(u.files), nil
}

func (u *unpacking) names() []string {
	names := make([]string, 0, len(u.files))
	for name := range u.files {
		names = append(names, name)
	}
	return names
}

// topFolder returns the folder that all files are in; empty: there is none.
func (u *unpacking) topFolder() string {
	top := ""
	for name := range u.files {
		first, _, inFolder := strings.Cut(name, "/")
		if !inFolder || top != "" && first != top {
			return ""
		}
		top = first
	}
	return top
}

// stripFolder keeps only the files of a folder, by their names in it.
func (u *unpacking) stripFolder(dir string) {
	if dir == "" {
		return
	}
	kept := make(map[string][]byte, len(u.files))
	for name, body := range u.files {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			kept[rest] = body
		}
	}
	u.files = kept
}

// overlaps reports whether two files of a zip archive share bytes: so a small archive could hold
// endless ones.
func overlaps(files []*zip.File) bool {
	type span struct{ start, end uint64 }
	spans := make([]span, 0, len(files))
	for _, f := range files {
		start, err := f.DataOffset()
		if err != nil || f.CompressedSize64 == 0 {
			continue // opening the file reports the fault
		}
		spans = append(spans, span{uint64(start), uint64(start) + f.CompressedSize64})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			return true
		}
	}
	return false
}
