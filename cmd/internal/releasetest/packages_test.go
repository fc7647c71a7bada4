package releasetest_test

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// content is a line of what a package has.
var content = regexp.MustCompile(`(?m)^  - \{(?:src: "?([^",]+)"?, )?dst: ([^,]+),(?: packager: (\w+),)?(?: type: ([\w|]+),)? file_info: \{mode: (\d+)(?:, group: (\w+))?\}\}$`)

// The lists of what is in the packages, which `make packages-test` compares with the packages, are those of the
// configurations.
func TestLists(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"waybill", "waybill-services"} {
		config := read(t, "release/"+name+".nfpm.yaml")
		lines := content.FindAllStringSubmatch(config, -1)
		if of := strings.Count(config, "file_info:"); len(lines) != of || of == 0 {
			t.Errorf("%s: %d of %d lines are read", name, len(lines), of)
		}
		for _, kind := range []string{"deb", "rpm"} {
			list := strings.Split(strings.TrimSpace(read(t, "release/lists/"+name+"."+kind)), "\n")
			found := make(map[string]bool)
			for _, l := range lines {
				if l[3] != "" && l[3] != kind {
					continue
				}
				brings := false
				for _, have := range list {
					if matches(t, l, have) {
						found[have], brings = true, true
					}
				}
				if !brings {
					t.Errorf("%s.%s has no %s with mode %s: `make packages-test ARGS=-update` writes the lists", name, kind, l[2], l[5])
				}
			}
			for _, have := range list {
				if !found[have] {
					t.Errorf("%s.%s has %q, which is not in its configuration", name, kind, have)
				}
			}
		}
	}
}

// matches reports whether a line of a list, "mode owner/group path", is what a line of a configuration brings.
func matches(t *testing.T, line []string, have string) bool {
	t.Helper()
	fields := strings.Fields(have)
	if len(fields) != 3 {
		t.Fatalf("a list has the line %q", have)
	}
	source, to, kind, group := line[1], line[2], line[4], line[6]
	mode, err := strconv.ParseUint(line[5], 8, 32)
	if err != nil {
		t.Fatal(err)
	}
	if group == "" {
		group = "root"
	}
	place := fields[2] == to
	if strings.HasSuffix(to, "/") { // a folder for what the source's pattern finds
		in, err := path.Match(path.Base(source), path.Base(fields[2]))
		place = err == nil && in && path.Dir(fields[2])+"/" == to
	}
	return place && fields[0] == permissions(mode, kind == "dir") && fields[1] == "root/"+group
}

// permissions are those that ls shows.
func permissions(mode uint64, dir bool) string {
	text := []byte("-rwxrwxrwx")
	if dir {
		text[0] = 'd'
	}
	for i := range 9 {
		if mode&(1<<(8-i)) == 0 {
			text[i+1] = '-'
		}
	}
	return string(text)
}
