package folder_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/services/gateway/internal/folder"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/jsonscan/attack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is one of an archive.
type entry struct {
	name, body string
	mode       fs.FileMode // of what is no file
	flags      uint16      // of zip
	method     uint16      // of zip, when the body is packed already
}

func zipped(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Flags: e.flags}
		if e.body == "" {
			header.Method = zip.Store // a compressor for each of many takes long
		}
		header.SetMode(e.mode | 0o644)
		var to io.Writer
		var err error
		if e.flags != 0 || e.method != 0 {
			header.Method, header.CompressedSize64, header.UncompressedSize64 = e.method, uint64(len(e.body)), uint64(len(e.body))
			to, err = w.CreateRaw(header)
		} else {
			to, err = w.CreateHeader(header)
		}
		if err == nil {
			_, err = io.WriteString(to, e.body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t testing.TB, entries ...entry) []byte {
	t.Helper()
	return gzipped(t, func(to io.Writer) error {
		w := tar.NewWriter(to)
		for _, e := range entries {
			header := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.body)), Typeflag: kinds[e.mode]}
			if e.mode == fs.ModeSymlink || e.mode == hardLink {
				header.Linkname, header.Size = e.body, 0
			}
			if err := w.WriteHeader(header); err != nil {
				return err
			}
			if header.Size > 0 {
				if _, err := io.WriteString(w, e.body); err != nil {
					return err
				}
			}
		}
		return w.Close()
	})
}

const hardLink = fs.ModeIrregular

var kinds = map[fs.FileMode]byte{
	0: tar.TypeReg, fs.ModeDir: tar.TypeDir, fs.ModeSymlink: tar.TypeSymlink, hardLink: tar.TypeLink,
	fs.ModeDevice: tar.TypeBlock, fs.ModeCharDevice: tar.TypeChar, fs.ModeNamedPipe: tar.TypeFifo,
}

func gzipped(t testing.TB, write func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packed(t testing.TB, format string, entries ...entry) []byte {
	if format == folder.Zip {
		return zipped(t, entries...)
	}
	return tarred(t, entries...)
}

// contents returns the files of a folder.
func contents(t testing.TB, files fs.FS) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := fs.ReadFile(files, name)
		found[name] = string(body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var formats = []string{folder.Zip, folder.TarGz}

// The folder of the route files is found, however the archive was made.
func TestRead(t *testing.T) {
	t.Parallel()
	const routes, page = `{"openapi":"3.1.0"}`, "<p>ü</p>"
	plain := map[string]string{"a.oas.json": routes, "pages/one.html": page, "empty.txt": ""}
	config := map[string]string{"a.oas.json": routes}
	for name, tc := range map[string]struct {
		entries []entry
		want    map[string]string
	}{
		"at the top":  {[]entry{{name: "a.oas.json", body: routes}, {name: "pages/one.html", body: page}, {name: "empty.txt"}}, plain},
		"from a dot":  {[]entry{{name: "./", mode: fs.ModeDir}, {name: "./a.oas.json", body: routes}, {name: "./pages/", mode: fs.ModeDir}, {name: "./pages/one.html", body: page}, {name: "empty.txt"}}, plain},
		"in a folder": {[]entry{{name: "shop/", mode: fs.ModeDir}, {name: "shop/a.oas.json", body: routes}, {name: "shop/pages/one.html", body: page}, {name: "shop/empty.txt"}}, plain},
		"by macOS": {[]entry{
			{name: "shop/a.oas.json", body: routes}, {name: "__MACOSX/shop/._a.oas.json", body: "x"}, {name: "shop/pages/one.html", body: page},
			{name: ".DS_Store", body: "x"}, {name: "shop/.git/config", body: "x"}, {name: "shop/empty.txt"},
		}, plain},
		"config":             {[]entry{{name: "README.md", body: "x"}, {name: "config/a.oas.json", body: routes}}, config},
		"config in a folder": {[]entry{{name: "shop-main/README.md", body: "x"}, {name: "shop-main/config/a.oas.json", body: routes}}, config},
		"config alone":       {[]entry{{name: "config/a.oas.json", body: routes}}, config},
		"config of others":   {[]entry{{name: "a.oas.json", body: routes}, {name: "config/x.json", body: "1"}}, map[string]string{"a.oas.json": routes, "config/x.json": "1"}},
		"like a bound": {[]entry{{name: "1/2/3/4/5/6/7/8/deep", body: "x"}, {name: "a.oas.json", body: strings.Repeat(" ", folder.MaxRouteFile)}, {name: "x", body: strings.Repeat("x", folder.MaxFile)}},
			map[string]string{"1/2/3/4/5/6/7/8/deep": "x", "a.oas.json": strings.Repeat(" ", folder.MaxRouteFile), "x": strings.Repeat("x", folder.MaxFile)}},
		"nothing": {nil, map[string]string{}},
	} {
		for _, format := range formats {
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
				files, faults := folder.Unpack(t.Context(), format, packed(t, format, tc.entries...))
				if len(faults) > 0 {
					t.Fatal(faults)
				}
				if diff := cmp.Diff(tc.want, contents(t, files)); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
				if name == "by macOS" {
					if err := fstest.TestFS(files, slices.Collect(maps.Keys(tc.want))...); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// What git writes about the commit, and several members of gzip, are no files.
func TestGitArchive(t *testing.T) {
	t.Parallel()
	raw := gzipped(t, func(to io.Writer) error {
		w := tar.NewWriter(to)
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "f2d28"}})
		_ = w.WriteHeader(&tar.Header{Name: "a.oas.json", Size: 2, Mode: 0o644})
		_, _ = io.WriteString(w, "{}")
		return w.Close()
	})
	files, faults := folder.Unpack(t.Context(), folder.TarGz, append(raw, gzipped(t, func(io.Writer) error { return nil })...))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if diff := cmp.Diff(map[string]string{"a.oas.json": "{}"}, contents(t, files)); diff != "" {
		t.Error(diff)
	}
}

// hostile entries, each of which is a fault that names it.
var hostile = map[string]struct {
	entry entry
	want  string
	only  string // a format; empty: both
}{
	"up":                    {entry{name: "../a.oas.json"}, "no path within", ""},
	"up behind a folder":    {entry{name: "pages/../../a.oas.json"}, "no path within", ""},
	"up behind a dot":       {entry{name: "./../a.oas.json"}, "no path within", ""},
	"up within":             {entry{name: "pages/../a.oas.json"}, "no path within", ""},
	"up alone":              {entry{name: ".."}, "no path within", ""},
	"up at the end":         {entry{name: "pages/.."}, "no path within", ""},
	"up by backslashes":     {entry{name: `..\a.oas.json`}, `\ in its name`, ""},
	"up by both":            {entry{name: `pages/..\..\a.oas.json`}, `\ in its name`, ""},
	"absolute":              {entry{name: "/etc/passwd"}, "absolute", ""},
	"absolute, two slashes": {entry{name: "//server/share"}, "absolute", ""},
	"a drive":               {entry{name: "C:/a.oas.json"}, "absolute", ""},
	"a drive, backslash":    {entry{name: `C:\a.oas.json`}, `\ in its name`, ""},
	"a share":               {entry{name: `\\server\share`}, `\ in its name`, ""},
	"two slashes":           {entry{name: "pages//a.txt"}, "no path within", ""},
	"a dot within":          {entry{name: "pages/./a.txt"}, "no path within", ""},
	"up after a dot left":   {entry{name: ".git/../../a"}, "no path within", ""},
	"NUL":                   {entry{name: "a\x00.txt"}, "NUL", folder.Zip},
	"not UTF-8":             {entry{name: "\xff\xfe.txt"}, "not UTF-8", ""},
	"too deep":              {entry{name: "1/2/3/4/5/6/7/8/9/a.txt"}, "deeper than 8", ""},
	"a symbolic link":       {entry{name: "a.oas.json", body: "/etc/passwd", mode: fs.ModeSymlink}, "is a link", ""},
	"a hidden link":         {entry{name: ".a", body: "/etc/passwd", mode: fs.ModeSymlink}, "is a link", ""},
	"a hard link":           {entry{name: "a.oas.json", body: "b.txt", mode: hardLink}, "is a link", folder.TarGz},
	"a device":              {entry{name: "a", mode: fs.ModeDevice}, "neither a file nor a folder", ""},
	"a character device":    {entry{name: "a", mode: fs.ModeCharDevice}, "neither a file nor a folder", folder.TarGz},
	"a pipe":                {entry{name: "a", mode: fs.ModeNamedPipe}, "neither a file nor a folder", ""},
	"a socket":              {entry{name: "a", mode: fs.ModeSocket}, "neither a file nor a folder", folder.Zip},
	"encrypted":             {entry{name: "a", body: "x", flags: 1}, "encrypted", folder.Zip},
	"strongly encrypted":    {entry{name: "a", body: "x", flags: 1<<6 | 1}, "encrypted", folder.Zip},
	"hidden directory":      {entry{name: "a", body: "x", flags: 1 << 13}, "encrypted", folder.Zip},
	"bzip2":                 {entry{name: "a", body: "x", method: 12}, "not known", folder.Zip},
	"damaged":               {entry{name: "a", body: "xyz", method: zip.Deflate}, "damaged", folder.Zip},
	"a long file":           {entry{name: "a", body: strings.Repeat("x", folder.MaxFile+1)}, "longer than 1 MiB", ""},
	"a long route file":     {entry{name: "a.oas.json", body: strings.Repeat(" ", folder.MaxRouteFile+1)}, "longer than 4 MiB", ""},
	"there twice":           {entry{name: "b.txt"}, "twice", ""},
	"there in another case": {entry{name: "B.TXT"}, "twice", ""},
	"Kelvin":                {entry{name: "\u212aELVIN"}, "twice", ""},
	"below a file":          {entry{name: "b.txt/c"}, "in a folder of which there is a file", ""},
	"over a folder":         {entry{name: "PAGES"}, "as a file and as a folder", ""},
}

// The name of an entry, whatever it is, leads nowhere; all faulty ones are named at once.
func TestHostileEntries(t *testing.T) {
	t.Parallel()
	good := []entry{{name: "b.txt", body: "x"}, {name: "kelvin", body: "x"}, {name: "pages/b.txt", body: "x"}}
	for _, format := range formats {
		all := slices.Clone(good)
		for name, tc := range hostile {
			if tc.only != "" && tc.only != format {
				continue
			}
			all = append(all, tc.entry)
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
				files, faults := folder.Unpack(t.Context(), format, packed(t, format, append(slices.Clone(good), tc.entry)...))
				if len(faults) != 1 || !strings.Contains(faults[0].Message, tc.want) || files != nil {
					t.Fatalf("%v, want one fault: %s", faults, tc.want)
				}
				if name := faults[0].File; name == "" || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
					t.Errorf("the fault is about %q", name)
				}
			})
		}
		t.Run("all at once "+format, func(t *testing.T) {
			t.Parallel()
			_, faults := folder.Unpack(t.Context(), format, packed(t, format, all...))
			if want := len(all) - len(good); len(faults) < want {
				t.Errorf("%d faults, want %d", len(faults), want)
			}
		})
	}
}

// bomb is an archive that costs its reader more than it looks.
type bomb struct {
	format, want string
	raw          func(t testing.TB) []byte
}

func many(n int, name func(int) entry) []entry {
	entries := make([]entry, n)
	for i := range entries {
		entries[i] = name(i)
	}
	return entries
}

func numbered(i int) entry { return entry{name: fmt.Sprintf("f%07d", i)} }

// bombs by count, by ratio, by headers and by overlapping. Those of gzip are one member many
// times: that is quickly made.
var bombs = map[string]bomb{
	"1,001 files, zip":      {folder.Zip, "too many files", func(t testing.TB) []byte { return zipped(t, many(1001, numbered)...) }},
	"1,001 files, tar":      {folder.TarGz, "too many files", func(t testing.TB) []byte { return tarred(t, many(1001, numbered)...) }},
	"21,000 files, zip":     {folder.Zip, "too many files", func(t testing.TB) []byte { return zipped(t, many(21_000, numbered)...) }},
	"10^6 files, tar":       {folder.TarGz, "too many files", func(t testing.TB) []byte { return bytes.Repeat(unended(t, many(1000, numbered)...), 1000) }},
	"10^6 folders, tar":     {folder.TarGz, "too many files", func(t testing.TB) []byte { return bytes.Repeat(unended(t, many(1000, folderEntry)...), 1000) }},
	"65,535 files, as said": {folder.Zip, "no zip archive", func(t testing.TB) []byte { return saying(zipped(t, numbered(0)), 0xffff) }},
	"hidden files, zip":     {folder.Zip, "too many files", func(t testing.TB) []byte { return zipped(t, many(1001, hiddenEntry)...) }},
	"by ratio, zip":         {folder.Zip, "32 MiB", func(t testing.TB) []byte { return zipped(t, many(33, zeros)...) }},
	"by ratio, tar":         {folder.TarGz, "32 MiB", func(t testing.TB) []byte { return endless(t, 0, many(33, zeros)...) }},
	"hidden and 4 GiB, tar": {folder.TarGz, "32 MiB", func(t testing.TB) []byte { return endless(t, 4<<30, entry{name: ".a"}) }},
	"behind the end, tar":   {folder.TarGz, "32 MiB", func(t testing.TB) []byte { return append(tarred(t, numbered(1)), endless(t, 0)...) }},
	"by headers, tar": {folder.TarGz, "32 MiB", func(t testing.TB) []byte {
		return bytes.Repeat(gzipped(t, func(to io.Writer) error {
			w := tar.NewWriter(to)
			records := map[string]string{"WAYBILL.x": strings.Repeat("x", 900<<10)}
			if err := w.WriteHeader(&tar.Header{Name: ".a", Mode: 0o644, PAXRecords: records}); err != nil {
				return err
			}
			return w.Flush()
		}), 900)
	}},
	"overlapping, zip": {folder.Zip, "overlap", overlapping},
	"one in many, zip": {folder.Zip, "overlap", quoting},
	"truncated, zip":   {folder.Zip, "only a part", func(t testing.TB) []byte { return cut(zipped(t, many(3, zeros)...)) }},
	"truncated, tar":   {folder.TarGz, "only a part", func(t testing.TB) []byte { return cut(tarred(t, many(3, zeros)...)) }},
	"no checksum, tar": {folder.TarGz, "only a part", func(t testing.TB) []byte { raw := tarred(t, zeros(1)); return raw[:len(raw)-4] }},
	"nothing, zip":     {folder.Zip, "no zip archive", func(testing.TB) []byte { return nil }},
	"nothing, tar":     {folder.TarGz, "no tar.gz archive", func(testing.TB) []byte { return nil }},
	"the other, zip":   {folder.Zip, "no zip archive", func(t testing.TB) []byte { return tarred(t, numbered(1)) }},
	"the other, tar":   {folder.TarGz, "no tar.gz archive", func(t testing.TB) []byte { return zipped(t, numbered(1)) }},
	"no tar in it":     {folder.TarGz, "no tar.gz archive", func(t testing.TB) []byte { return gzipped(t, mebibyte) }},
	"another format":   {"rar", "neither zip nor tar.gz", func(testing.TB) []byte { return []byte("Rar!") }},
}

func folderEntry(i int) entry { return entry{name: fmt.Sprintf("f%07d/", i), mode: fs.ModeDir} }
func hiddenEntry(i int) entry { return entry{name: fmt.Sprintf(".git/%d", i)} }

var megabyte = strings.Repeat("\x00", folder.MaxFile)

func zeros(i int) entry { return entry{name: fmt.Sprintf("%d.bin", i), body: megabyte} }

func cut(raw []byte) []byte { return raw[:len(raw)*2/3] }

func mebibyte(to io.Writer) error {
	_, err := io.WriteString(to, strings.Repeat("x", 1<<20))
	return err
}

// unended returns the entries of a tar archive, and no end.
func unended(t testing.TB, entries ...entry) []byte {
	return gzipped(t, func(to io.Writer) error {
		w := tar.NewWriter(to)
		for _, e := range entries {
			if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o644, Typeflag: kinds[e.mode], Size: int64(len(e.body))}); err != nil {
				return err
			}
			if _, err := io.WriteString(w, e.body); err != nil {
				return err
			}
		}
		return w.Flush()
	})
}

// endless returns an archive whose last file is followed by 4 GiB; size is what that
// file is said to have.
func endless(t testing.TB, size int64, entries ...entry) []byte {
	raw := unended(t, entries...)
	if size > 0 {
		raw = gzipped(t, func(to io.Writer) error {
			return tar.NewWriter(to).WriteHeader(&tar.Header{Name: entries[0].name, Mode: 0o644, Size: size})
		})
	}
	return append(raw, bytes.Repeat(gzipped(t, mebibyte), 4096)...)
}

// saying returns a zip archive that says that it has n files.
func saying(raw []byte, n uint16) []byte {
	end := bytes.LastIndex(raw, []byte("PK\x05\x06"))
	binary.LittleEndian.PutUint16(raw[end+8:], n)
	binary.LittleEndian.PutUint16(raw[end+10:], n)
	return raw
}

// overlapping returns a zip archive whose directory names the same bytes 500 times.
func overlapping(t testing.TB) []byte {
	raw := zipped(t, entry{name: "0000", body: megabyte})
	start := bytes.Index(raw, []byte("PK\x01\x02"))
	end := bytes.LastIndex(raw, []byte("PK\x05\x06"))
	made := bytes.Clone(raw[:start])
	for i := range 500 {
		one := bytes.Clone(raw[start:end])
		copy(one[46:], fmt.Sprintf("%04d", i))
		made = append(made, one...)
	}
	size := uint32(len(made) - start)
	made = append(made, raw[end:]...)
	binary.LittleEndian.PutUint32(made[len(made)-10:], size)
	return saying(made, 500)
}

// quoting returns a zip archive in which one file's bytes are a part of another's.
func quoting(t testing.TB) []byte {
	inner := zipped(t, entry{name: "in", body: "inner"})
	local, _, _ := bytes.Cut(inner, []byte("PK\x01\x02"))
	raw := zipped(t, entry{name: "out", body: string(local), method: zip.Store, flags: 1 << 11})
	at := bytes.Index(raw, local)
	start, end := bytes.Index(inner, []byte("PK\x01\x02")), bytes.LastIndex(inner, []byte("PK\x05\x06"))
	entryOf := bytes.Clone(inner[start:end])
	binary.LittleEndian.PutUint32(entryOf[42:], uint32(at))
	old := bytes.LastIndex(raw, []byte("PK\x05\x06"))
	directory := binary.LittleEndian.Uint32(raw[old+12:])
	made := append(bytes.Clone(raw[:old]), entryOf...)
	made = append(made, raw[old:]...)
	binary.LittleEndian.PutUint32(made[len(made)-10:], directory+uint32(len(entryOf)))
	return saying(made, 2)
}

// No archive takes more than 128 MB of memory at a time, or 20 s, or a place on a disk. What is
// measured is all that was ever asked for, which is at most 256 MB: the collector has taken most of
// it back long before the end.
func TestBombs(t *testing.T) { //nolint:paralleltest // memory is the process's
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Chdir(dir)
	for name, tc := range bombs {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // as above
			raw := tc.raw(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			files, faults := folder.Unpack(t.Context(), tc.format, raw)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if len(faults) != 1 || !strings.Contains(faults[0].Message, tc.want) || files != nil {
				t.Errorf("%v, want one fault: %s", faults[:min(len(faults), 3)], tc.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 || took > 20*time.Second {
				t.Errorf("%d bytes of %d, %s", used, len(raw), took)
			}
		})
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("on the disk: %v %v", left, err)
	}
}

// Who has no time left is told so.
func TestTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, format := range formats {
		if _, faults := folder.Unpack(ctx, format, packed(t, format, numbered(1))); len(faults) != 1 || !strings.Contains(faults[0].Message, "in time") {
			t.Errorf("%s: %v", format, faults)
		}
	}
}

// Whatever is uploaded, it is a folder within the bounds, or faults, and reading costs no more than a folder of the greatest size.
func FuzzRead(f *testing.F) {
	f.Add(true, zipped(f, entry{name: "a.oas.json", body: "{}"}, entry{name: "config/x/b.oas.json", body: "{}"}))
	f.Add(false, tarred(f, entry{name: "a.oas.json", body: "{}"}, entry{name: "config/x/b.oas.json", body: "{}"}))
	f.Add(true, quoting(f))
	for _, tc := range hostile {
		if len(tc.entry.body) < 100 && tc.only == "" && tc.entry.mode&fs.ModeDevice == 0 {
			f.Add(true, zipped(f, tc.entry))
			f.Add(false, tarred(f, tc.entry))
		}
	}
	f.Fuzz(func(t *testing.T, isZip bool, raw []byte) {
		format := folder.TarGz
		if isZip {
			format = folder.Zip
		}
		var files fs.FS
		var faults routefile.Faults
		attack.Hold(t, len(raw)+folder.MaxTotal, attack.Allowance{}, func() { files, faults = folder.Unpack(t.Context(), format, raw) })
		if (files == nil) != (len(faults) > 0) {
			t.Fatalf("%v and %v", files, faults)
		}
		if files == nil {
			return
		}
		total := 0
		found := contents(t, files)
		for name, body := range found {
			if total += len(body); !fs.ValidPath(name) || strings.Count(name, "/") > folder.MaxDepth {
				t.Errorf("a file is called %q", name)
			}
		}
		if total > folder.MaxTotal || len(found) > folder.MaxFiles {
			t.Errorf("%d files of %d bytes", len(found), total)
		}
	})
}
