package doctor_test

import (
	"encoding/base64"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/doctor"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// options are those of an API with these settings.
func options(t *testing.T, values map[string]string) doctor.Options {
	t.Helper()
	set, err := settings.Load(settings.API, settings.MadeFrom(values))
	return doctor.Options{Settings: set, Faults: err, Version: "v1", Limit: 5 * time.Second}
}

func services(t *testing.T, database string) map[string]string {
	t.Helper()
	return map[string]string{
		settings.DatabaseURL: database, settings.NATSURL: bustest.Start(t).URL(), settings.EncryptionKey: seal.Generate(),
		settings.HTTPAddr: "127.0.0.1:1", settings.OpsAddr: "127.0.0.1:1",
	}
}

// find returns the first finding of a check; every finding must say enough.
func find(t *testing.T, found []judge.Finding, name string) judge.Finding {
	t.Helper()
	for _, f := range found {
		if f.Group == "" || f.Found == "" || f.Means == "" || (f.Level == judge.Warning || f.Level == judge.Fault) && f.Do == "" {
			t.Errorf("it says too little: %+v", f)
		}
	}
	for _, f := range found {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no finding %q in %+v", name, found)
	return judge.Finding{}
}

// A healthy installation without processes has one fault: that nobody dispatches.
func TestServices(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		db := d.Open(t, store.Options{})
		if err := db.PrepareDays(t.Context(), store.DaysAround(time.Now())...); err != nil {
			t.Fatal(err)
		}
		values := services(t, d.URL)
		b, err := bus.Connect(bus.Options{URL: values[settings.NATSURL], Name: "api", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		if err := b.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		found := doctor.Diagnose(t.Context(), options(t, values))
		for name, level := range map[string]judge.Level{
			"settings": judge.OK, "database": judge.OK, "migrations": judge.OK, "bus": judge.OK, "EVENTS": judge.OK, "events": judge.OK,
			"unsettled": judge.OK, "dispatchers": judge.Fault, "rights": judge.Warning, "kept": judge.OK, "processes": judge.Absent,
		} {
			// A busy machine answers slowly, and says so.
			if f := find(t, found, name); f.Level != level && (name != "database" || f.Level != judge.Warning) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if n := finding.Count(found, judge.Fault); n != 1 {
			t.Errorf("%d faults: %+v", n, found)
		}
		postgres := !db.SQLite()
		for name, level := range map[string]judge.Level{"connections": judge.OK, "partitions": judge.OK, "archive": judge.Warning} {
			if f := find(t, found, name); postgres != (f.Level == level) || !postgres && f.Level != judge.Absent {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if f := find(t, found, "speed"); postgres != (f.Level == judge.Absent) {
			t.Errorf("speed: %+v", f)
		}
		for _, f := range found {
			if strings.Contains(f.Found+f.Do, values[settings.EncryptionKey]) {
				t.Errorf("it tells a secret: %+v", f)
			}
		}
	})
}

func TestDatabaseThatIsNotMigrated(t *testing.T) {
	t.Parallel()
	found := doctor.Diagnose(t.Context(), options(t, services(t, storetest.Empty(t).URL)))
	if f := find(t, found, "migrations"); f.Level != judge.Fault || f.Do != "waybill migrate up" {
		t.Errorf("%+v", f)
	}
	if f := find(t, found, "streams"); f.Level != judge.Warning {
		t.Errorf("%+v", f)
	}
}

// silent takes connections and never says a word.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return l.Addr().String()
}

// Neither a database nor a bus that hangs can hang it.
func TestWhatHangs(t *testing.T) {
	t.Parallel()
	values := services(t, "postgres://waybill@"+silent(t)+"/waybill?sslmode=disable&connect_timeout=60")
	values[settings.NATSURL] = "nats://" + silent(t)
	o := options(t, values)
	o.Limit, o.Parts = time.Second, []string{"http://" + silent(t)}
	began := time.Now()
	found := doctor.Diagnose(t.Context(), o)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, name := range []string{"database", "bus", "processes"} {
		if f := find(t, found, name); f.Level != judge.Fault {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestWhatIsAway(t *testing.T) {
	t.Parallel()
	o := options(t, map[string]string{
		settings.DatabaseURL: "postgres://waybill:hunter2@127.0.0.1:1/waybill", settings.NATSURL: "nats://api:hunter2@127.0.0.1:1",
		settings.EncryptionKey: base64.StdEncoding.EncodeToString(make([]byte, 32)),
	})
	o.Limit, o.Environ = 2*time.Second, []string{"WAYBILL_EGRES_ALLOW=none", "WAYBILL_KEY=hunter2", "https_proxy=http://hunter2@proxy"}
	found := doctor.Diagnose(t.Context(), o)
	for name, level := range map[string]judge.Level{"database": judge.Fault, "bus": judge.Fault, "environment": judge.Warning, "proxy": judge.Warning, "streams": judge.Absent} {
		if f := find(t, found, name); f.Level != level {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for _, f := range found {
		if strings.Contains(f.Found+f.Do, "hunter2") {
			t.Errorf("it tells a secret: %+v", f)
		}
	}
}

// Browsers give cookies to all hosts of a registrable domain.
func TestDomainsOfDeployments(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		public, deployments string
		want                judge.Level
	}{
		{"https://waybill.example.com", "https://gateway.example.com", judge.Warning},
		{"https://example.co.uk", "https://gateway.EXAMPLE.co.uk:8443", judge.Warning},
		{"https://waybill.example.com", "https://example-apps.net", judge.OK},
		{"https://waybill.example.co.uk", "https://apps.co.uk", judge.OK},
		{"https://notexample.com", "https://example.com", judge.OK},
		{"https://192.0.2.1", "https://gateway.localhost", judge.OK},
		{"", "https://gateway.example.com", judge.Absent},
		{"https://waybill.example.com", "", judge.Absent},
	} {
		o := options(t, map[string]string{settings.PublicURL: tc.public, settings.GatewayURL: tc.deployments})
		o.Limit = 2 * time.Second
		if f := find(t, doctor.Diagnose(t.Context(), o), "domains"); f.Level != tc.want {
			t.Errorf("%s and %s: %+v", tc.public, tc.deployments, f)
		}
	}
}

func TestSettingsThatCantBeUsed(t *testing.T) {
	t.Parallel()
	o := options(t, map[string]string{settings.DatabaseURL: "mysql://x", settings.Retention: "never"})
	o.Limit = time.Second
	found := doctor.Diagnose(t.Context(), o)
	faults := 0
	for _, f := range found {
		if f.Name == "settings" && f.Level == judge.Fault {
			faults++
		}
	}
	if faults != 4 { // these two, and those that are required
		t.Errorf("%d faults in %+v", faults, found)
	}
}

// A directory in which nothing was started stays as it is.
func TestNothingThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	set, err := settings.Load(settings.Dev, settings.MadeFrom(map[string]string{settings.DataDir: filepath.Join(dir, "none")}))
	found := doctor.Diagnose(t.Context(), doctor.Options{Settings: set, Faults: err, Version: "v1", Limit: 2 * time.Second})
	if f := find(t, found, "database"); f.Level != judge.Fault {
		t.Errorf("%+v", f)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it made %v", left)
	}
}
