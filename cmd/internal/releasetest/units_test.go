// Package releasetest_test holds what packages install to what they promise: units that may do little
// on a machine, and settings that the programs know.
package releasetest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/internal/settings"
)

const deploy = "../../../deploy"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// roles are the units by their names, with the settings that they run with.
var roles = map[string]struct {
	file string
	role settings.Role
}{
	"waybill":            {"waybill.env", settings.Dev},
	"waybill-api":        {"api.env", settings.API},
	"waybill-dispatcher": {"dispatcher.env", settings.Dispatcher},
	"waybill-gateway":    {"gateway.env", settings.Gateway},
}

// Systemd has no way to write the sandbox once. So each unit has it, and all have the same.
func TestSandbox(t *testing.T) {
	t.Parallel()
	_, want, found := strings.Cut(read(t, "systemd/waybill.service"), "\nAmbientCapabilities=")
	if !found {
		t.Fatal("waybill.service has no sandbox")
	}
	for name := range roles {
		_, got, _ := strings.Cut(read(t, "systemd/"+name+".service"), "\nAmbientCapabilities=")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the sandbox of %s is not that of waybill (-waybill +%s):\n%s", name, name, diff)
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	units, err := filepath.Glob(filepath.Join(deploy, "systemd", "*.service"))
	if err != nil || len(units) != len(roles) {
		t.Errorf("units %v, want %d: %v", units, len(roles), err)
	}
	packed := read(t, "release/waybill.nfpm.yaml") + read(t, "release/waybill-services.nfpm.yaml")
	for name, of := range roles {
		unit := read(t, "systemd/"+name+".service")
		for _, line := range []string{"User=waybill", "Environment=WAYBILL_CONFIG=/etc/waybill/" + of.file, "UMask=0077", "CapabilityBoundingSet="} {
			if !slices.Contains(strings.Split(unit, "\n"), line) {
				t.Errorf("%s has no line %s", name, line)
			}
		}
		if !regexp.MustCompile(`(?m)^ExecStart=/usr/bin/` + name + `( |$)`).MatchString(unit) {
			t.Errorf("%s starts another program", name)
		}
		for _, place := range []string{"dst: /usr/bin/" + name + ",", "dst: /etc/waybill/" + of.file + ", type: config|noreplace, file_info: {mode: 0640, group: waybill}"} {
			if !strings.Contains(packed, place) {
				t.Errorf("no package has %s", place)
			}
		}
	}
}

// Everything in the files is a setting of the program that reads it, commented out or not.
func TestSettings(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^#?(WAYBILL_[A-Z_]+)=`)
	for name, of := range roles {
		for _, match := range line.FindAllStringSubmatch(read(t, "release/etc/"+of.file), -1) {
			at := slices.IndexFunc(settings.Specs(), func(s settings.Spec) bool { return s.Name == match[1] })
			if at < 0 || !settings.Specs()[at].UsedBy(of.role) {
				t.Errorf("%s: %s does not use %s", of.file, name, match[1])
			}
		}
	}
}

// As it is installed, waybill starts, and takes nothing from other machines and sends nothing to this network.
func TestInstalledSettings(t *testing.T) {
	t.Parallel()
	file, err := settings.ReadFile(filepath.Join(deploy, "release", "etc", "waybill.env"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := settings.Load(settings.Dev, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{set.HTTPAddr, set.OpsAddr, set.NATSAddr} {
		if !strings.HasPrefix(addr, "127.0.0.1:") {
			t.Errorf("it listens on %s", addr)
		}
	}
	if len(set.EgressAllow) > 0 || set.EgressHTTP || set.ReceiverAddr != "" || set.TLSAddr != "" {
		t.Errorf("it does more than it must: %+v", set)
	}
}

// A service says what it lacks, and nothing else is wrong with its file.
func TestServicesNeedSettings(t *testing.T) {
	t.Parallel()
	for name, of := range roles {
		if of.role == settings.Dev {
			continue
		}
		file, err := settings.ReadFile(filepath.Join(deploy, "release", "etc", of.file))
		if err != nil {
			t.Fatal(err)
		}
		_, err = settings.Load(of.role, file)
		if err == nil {
			t.Fatalf("%s starts without a database", name)
		}
		for _, needed := range []string{settings.DatabaseURL, settings.NATSURL, settings.EncryptionKey} {
			if !strings.Contains(err.Error(), needed) {
				t.Errorf("%s does not say that it needs %s: %v", name, needed, err)
			}
		}
		if faults := strings.Count(err.Error(), "\n") + 1; faults != 3 {
			t.Errorf("%s has other faults: %v", of.file, err)
		}
	}
}

// TestTags checks that programs are built with the same tags everywhere: by make, in images, and when all
// is checked.
func TestTags(t *testing.T) {
	t.Parallel()
	tags := regexp.MustCompile(`nomsgpack[a-z,]*`)
	want := tags.FindString(read(t, "../Makefile"))
	for _, file := range []string{"../Dockerfile", "../.ci/run"} {
		if got := tags.FindString(read(t, file)); got != want || want == "" {
			t.Errorf("%s has the tags %q, the Makefile %q", file, got, want)
		}
	}
}
