package bundle_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/waybill/internal/bundle"
)

// folder writes files with their paths as content, unless another content is given.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		name, content, given := strings.Cut(name, "=")
		if !given {
			content = name
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// content returns what an archive has, by name.
func content(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, entry := range r.File {
		f, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name] = string(text)
	}
	return all
}

func names(t *testing.T, b *bundle.Bundle) []string {
	t.Helper()
	var list []string
	for name := range content(t, b.Archive) {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func TestRulesLeaveOut(t *testing.T) {
	t.Parallel()
	rows := []struct {
		about     string
		has, want []string
		leftOut   []string
	}{
		{"a plain folder", []string{"a.oas.json", "policies.json", "pages/b.html"}, []string{"a.oas.json", "pages/b.html", "policies.json"}, nil},
		{
			"what nobody means", []string{"a.oas.json", ".git/config", ".gitignore=", ".env", ".env.local", "node_modules/x/y.oas.json", "pages/.DS_Store", "pages/b.html~", ".b.swp"},
			[]string{"a.oas.json"}, []string{".b.swp", ".env", ".env.local", ".git/", ".gitignore", "node_modules/", "pages/.DS_Store", "pages/b.html~"},
		},
		{
			"the keys of an installation", []string{"a.oas.json", "data/admin.key", "data/waybill.db", "other/encryption.key", ".waybillignore=!data/\n!admin.key\n!.git\n!.*\n", ".git/HEAD"},
			[]string{"a.oas.json"}, []string{".git/", ".waybillignore", "data/", "other/"},
		},
		{
			"rules of git", []string{"a.oas.json", ".gitignore=# a comment\n*.log\n/top\nbuild/\n!keep.log\ndeep/**/x\nn[0-2].txt\nm[!0-2].txt\n\\#odd\ntrailing \n", "x.log", "sub/y.log", "keep.log", "top", "sub/top", "build/z", "sub/build/z", "deep/x", "deep/1/2/x", "n1.txt", "n3.txt", "m1.txt", "m3.txt", "#odd", "trailing"},
			[]string{"a.oas.json", "keep.log", "m1.txt", "n3.txt", "sub/top"},
			[]string{"#odd", ".gitignore", "build/", "deep/1/2/x", "deep/x", "m3.txt", "n1.txt", "sub/build/", "sub/y.log", "top", "trailing", "x.log"},
		},
		{
			"rules of a folder below", []string{"a.oas.json", "sub/.gitignore=*.txt\n", "sub/b.txt", "b.txt"},
			[]string{"a.oas.json", "b.txt"}, []string{"sub/.gitignore", "sub/b.txt"},
		},
		{
			"our own have the last word", []string{"a.oas.json", ".gitignore=dist/\n", "sub/.gitignore=*\n", "sub/b.txt", "dist/c", "notes/d", ".waybillignore=!dist/\n!sub/*.txt\nnotes\n", ".env"},
			[]string{"a.oas.json", "dist/c", "sub/b.txt"}, []string{".env", ".gitignore", ".waybillignore", "notes/", "sub/.gitignore"},
		},
		{"rules of Windows", []string{"a.oas.json", ".gitignore=\ufeff*.log\r\ntop\r\n", "x.log", "top"}, []string{"a.oas.json"}, []string{".gitignore", "top", "x.log"}},
		{"a rule that is not closed", []string{"a.oas.json", ".gitignore=b[\n[\n!\n/\n", "b[", "b"}, []string{"a.oas.json", "b"}, []string{".gitignore", "b["}},
		{"a folder config without routes", []string{"a.oas.json", "config/x"}, []string{"a.oas.json", "config/x"}, nil},
		{"a folder config", []string{"config/a.oas.json", "config/pages/b", "main.go", "web/c.oas.json"}, []string{"config/a.oas.json", "config/pages/b"}, nil},
	}
	for _, row := range rows {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			b, err := bundle.Make(folder(t, row.has...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, names(t, b)); diff != "" || b.Files != len(row.want) {
				t.Errorf("uploads %d files (-want +got):\n%s", b.Files, diff)
			}
			if diff := cmp.Diff(row.leftOut, b.LeftOut); diff != "" {
				t.Errorf("leaves out (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheSameFilesMakeTheSameBytes(t *testing.T) {
	t.Parallel()
	var all [][]byte
	for range 2 {
		b, err := bundle.Make(folder(t, "a.oas.json={}", "pages/b.html=<p>", "empty="))
		if err != nil {
			t.Fatal(err)
		}
		if b.Size != 5 {
			t.Errorf("the files have %d bytes", b.Size)
		}
		all = append(all, b.Archive)
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Error("the archives differ")
	}
	if diff := cmp.Diff(map[string]string{"a.oas.json": "{}", "pages/b.html": "<p>", "empty": ""}, content(t, all[0])); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func TestWhatCanNotBeUploaded(t *testing.T) {
	t.Parallel()
	linked := folder(t, "a.oas.json")
	for name, to := range map[string]string{"link": "/etc/passwd", "pages": ".", "gone": "nothing"} {
		if err := os.Symlink(to, filepath.Join(linked, name)); err != nil {
			t.Fatal(err)
		}
	}
	large := folder(t, "a.oas.json", "film.mp4", "pages/b")
	if err := os.Truncate(filepath.Join(large, "film.mp4"), 5<<30); err != nil {
		t.Fatal(err)
	}
	many := []string{"a.oas.json"}
	for i := range bundle.MaxFiles {
		many = append(many, filepath.Join("pages", strings.Repeat("x", 1+i%50), string(rune('a'+i%26))+strings.Repeat("y", i/26)))
	}
	file := filepath.Join(folder(t, "a.oas.json"), "a.oas.json")
	rows := []struct {
		about, dir string
		says       []string
	}{
		{"links", linked, []string{"gone is a link", "link is a link", "pages is a link", ".waybillignore"}},
		{"a large file", large, []string{"3 files of 5120.0 MiB", "at most 1000 files of 32.0 MiB", "film.mp4, 5120.0 MiB"}},
		{"many files", folder(t, many...), []string{"at most 1000 files"}},
		{"no route files", folder(t, "main.go", "docs/a.oas.json"), []string{"there is no route file (*.oas.json) in "}},
		{"a folder that is not there", filepath.Join(linked, "nowhere"), []string{"nowhere: no such file or directory"}},
		{"a file", file, []string{"a.oas.json: not a directory"}},
	}
	for _, row := range rows {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			b, err := bundle.Make(row.dir)
			if err == nil {
				t.Fatalf("it is packed: %v", names(t, b))
			}
			for _, want := range row.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nshould say %q", err, want)
				}
			}
		})
	}
}
