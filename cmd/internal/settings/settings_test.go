package settings_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/shared/domain"
)

var encryptionKey = base64.StdEncoding.EncodeToString([]byte("an encryption key for tests only"))

// required is what the services can't do without.
func required() map[string]string {
	return map[string]string{
		settings.DatabaseURL: "postgres://u:dbsecret@h/d", settings.NATSURL: "nats://api:natssecret@h:4222",
		settings.AdminKey: strings.Repeat("k", 32), settings.EncryptionKey: encryptionKey,
	}
}

func TestEarlierSourcesWin(t *testing.T) {
	t.Parallel()
	names := []string{settings.HTTPAddr, settings.OpsAddr, settings.NATSAddr, settings.ReceiverAddr}
	source := func(n int, value string) settings.Source {
		values := make(map[string]string)
		for _, name := range names[:n] {
			values[name] = value
		}
		return settings.MadeFrom(values)
	}
	flags, environment, file := source(1, "flag:1"), source(2, "env:2"), source(3, "file:3")
	got, err := settings.Load(settings.Dev, flags, environment, file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"flag:1", "env:2", "file:3", "127.0.0.1:8090"},
		[]string{got.HTTPAddr, got.OpsAddr, got.NATSAddr, got.ReceiverAddr}); diff != "" {
		t.Errorf("flag, environment, file, default (-want +got):\n%s", diff)
	}
	empty := settings.MadeFrom(map[string]string{settings.HTTPAddr: " "})
	if got, err := settings.Load(settings.Dev, empty, environment); err != nil || got.HTTPAddr != "env:2" {
		t.Errorf("an empty value does not count as none: %q, %v", got.HTTPAddr, err)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	dev, err := settings.Load(settings.Dev)
	if err != nil {
		t.Fatal(err)
	}
	if dev.HTTPAddr != "127.0.0.1:8080" || dev.OpsAddr != "127.0.0.1:9090" || dev.NATSAddr != "127.0.0.1:4222" ||
		dev.DataDir != "./.waybill" || dev.RoutesDir != "./config" || !dev.EgressHTTP || len(dev.EgressAllow) != 2 ||
		dev.Retention != 168*time.Hour || dev.BusRetention != 72*time.Hour || dev.DedupeWindow != 2*time.Minute ||
		dev.DisableAfter != 120*time.Hour || dev.RateLimit != 0 || dev.BusReplicas != 1 || dev.BusMaxBytes != 8<<30 || dev.DispatchMemory != 256<<20 {
		t.Errorf("dev: %+v", dev)
	}
	if diff := cmp.Diff(domain.DefaultRetrySchedule(), dev.RetrySchedule); diff != "" {
		t.Errorf("retry schedule (-want +got):\n%s", diff)
	}
	for role, want := range map[settings.Role][2]string{settings.API: {":8080", "127.0.0.1:9090"}, settings.Dispatcher: {":8081", "127.0.0.1:9091"}, settings.Gateway: {":8082", "127.0.0.1:9092"}} {
		got, err := settings.Load(role, settings.MadeFrom(required()))
		if err != nil {
			t.Fatal(err)
		}
		if got.HTTPAddr != want[0] || got.OpsAddr != want[1] || got.EgressHTTP || got.EgressAllow != nil {
			t.Errorf("role %d: %+v", role, got)
		}
	}
}

// A folder of route files that was asked for is told from the default, which may be missing.
func TestRoutesDirGiven(t *testing.T) {
	t.Parallel()
	for value, given := range map[string]bool{"": false, "./config": true, "/etc/waybill/routes": true} {
		got, err := settings.Load(settings.Dev, settings.MadeFrom(map[string]string{settings.RoutesDir: value}))
		if err != nil {
			t.Fatal(err)
		}
		if got.RoutesDirGiven != given || got.RoutesDir == "" {
			t.Errorf("%s=%q: %q, given: %t", settings.RoutesDir, value, got.RoutesDir, got.RoutesDirGiven)
		}
	}
}

func TestEveryFaultIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := settings.Load(settings.API)
	want := `WAYBILL_NATS_URL is required: set it in the environment or by --nats-url
WAYBILL_DATABASE_URL is required: set it in the environment or by --database-url
WAYBILL_ENCRYPTION_KEY is required: set it in the environment or in the file of WAYBILL_CONFIG`
	if err == nil || err.Error() != want {
		t.Errorf("faults of an API without settings:\n%v\nwant\n%s", err, want)
	}
	_, err = settings.Load(settings.Dispatcher)
	if err == nil || strings.Contains(err.Error(), settings.AdminKey) || strings.Count(err.Error(), "is required") != 3 {
		t.Errorf("faults of a dispatcher without settings:\n%v", err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, value, want string }{
		{settings.HTTPAddr, "8080", `WAYBILL_HTTP_ADDR is "8080", which is not host:port, such as 127.0.0.1:8080 or :8080`},
		{settings.HTTPAddr, ":99999", `WAYBILL_HTTP_ADDR is ":99999", which is not host:port, such as 127.0.0.1:8080 or :8080`},
		{settings.OpsAddr, "a:b:c", `WAYBILL_OPS_ADDR is "a:b:c", which is not host:port, such as 127.0.0.1:8080 or :8080`},
		{settings.NATSURL, "http://user:hush@h:1", "WAYBILL_NATS_URL is not the URL of a NATS server, such as nats://user:password@host:4222; several are separated by commas"},
		{settings.DatabaseURL, "mysql://user:hush@h/d", "WAYBILL_DATABASE_URL is neither postgres://user:password@host/database nor sqlite:FILE"},
		{settings.DatabaseURL, "sqlite:", "WAYBILL_DATABASE_URL is neither postgres://user:password@host/database nor sqlite:FILE"},
		{settings.AdminKey, "hush", "WAYBILL_ADMIN_KEY must have 32 to 256 visible ASCII characters"},
		{settings.AdminKey, "hush" + strings.Repeat("é", 30), "WAYBILL_ADMIN_KEY must have 32 to 256 visible ASCII characters"},
		{settings.AdminKey, strings.Repeat("hush", 65), "WAYBILL_ADMIN_KEY must have 32 to 256 visible ASCII characters"},
		{settings.EncryptionKey, "hush", "WAYBILL_ENCRYPTION_KEY must be 32 bytes in base64; several keys are separated by commas: read encryption key 1 of 1: it has 3 bytes, want 32"},
		{settings.EgressAllow, "10.0.0.1", `WAYBILL_EGRESS_ALLOW must be none or CIDRs separated by commas, such as 10.1.0.0/16: read allowed networks: "10.0.0.1" is not a network such as 10.0.0.0/8`},
		{settings.EgressHTTP, "maybe", `WAYBILL_EGRESS_HTTP is "maybe", which is neither true nor false`},
		{settings.RetrySchedule, "5,x", "WAYBILL_RETRY_SCHEDULE must be numbers of seconds from 0.05 to 604800, separated by commas"},
		{settings.RetrySchedule, "0.01", "WAYBILL_RETRY_SCHEDULE must be numbers of seconds from 0.05 to 604800, separated by commas"},
		{settings.RetrySchedule, "NaN", "WAYBILL_RETRY_SCHEDULE must be numbers of seconds from 0.05 to 604800, separated by commas"},
		{settings.RetrySchedule, strings.Repeat("1,", 20) + "1", "WAYBILL_RETRY_SCHEDULE has 21 waits; at most 20 are allowed"},
		{settings.RetrySchedule, "600000,4800", "WAYBILL_RETRY_SCHEDULE adds up to 168h0m0s, which must be below WAYBILL_RETENTION (168h0m0s)"},
		{settings.Retention, "7d", `WAYBILL_RETENTION is "7d", which is not a duration of at least 1h0m0s, such as 90s, 15m or 72h`},
		{settings.Retention, "-1h", `WAYBILL_RETENTION is "-1h", which is not a duration of at least 1h0m0s, such as 90s, 15m or 72h`},
		{settings.BusRetention, "soon", `WAYBILL_BUS_RETENTION is "soon", which is not a duration of at least 1m0s, such as 90s, 15m or 72h`},
		{settings.DedupeWindow, "73h", "WAYBILL_DEDUPE_WINDOW is 73h0m0s, which must not exceed WAYBILL_BUS_RETENTION (72h0m0s)"},
		{settings.BusMaxBytes, "63MiB", `WAYBILL_BUS_MAX_BYTES is "63MiB", which is not a size of at least 64 MiB, such as 64MiB or 1GiB`},
		{settings.BusMaxBytes, "8GB", `WAYBILL_BUS_MAX_BYTES is "8GB", which is not a size of at least 64 MiB, such as 64MiB or 1GiB`},
		{settings.BusMaxBytes, "9999999999TiB", `WAYBILL_BUS_MAX_BYTES is "9999999999TiB", which is not a size of at least 64 MiB, such as 64MiB or 1GiB`},
		{settings.BusReplicas, "2", `WAYBILL_BUS_REPLICAS is "2", which is not 1, 3 or 5`},
		{settings.DisableAfter, "1", `WAYBILL_DISABLE_AFTER is "1", which is not a duration of at least 1m0s, such as 90s, 15m or 72h`},

		{settings.RateLimit, "-1", `WAYBILL_RATE_LIMIT is "-1", which is not a number of requests a second, 0 or more`},
		{settings.RateLimit, "Inf", `WAYBILL_RATE_LIMIT is "Inf", which is not a number of requests a second, 0 or more`},
		{settings.LogLevel, "loud", `WAYBILL_LOG_LEVEL is "loud", which is not debug, info, warn or error`},
		{settings.LogFormat, "xml", `WAYBILL_LOG_FORMAT is "xml", which is not auto, text or json`},
	}
	for _, row := range rows {
		values := required()
		values[row.name] = row.value
		_, err := settings.Load(settings.API, settings.MadeFrom(values))
		if err == nil || err.Error() != row.want {
			t.Errorf("%s=%s\ngot  %v\nwant %s", row.name, row.value, err, row.want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the value of a secret is shown: %v", row.name, err)
		}
	}
}

func TestSettingsShowNoSecret(t *testing.T) {
	t.Parallel()
	set, err := settings.Load(settings.API, settings.MadeFrom(required()))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		text := fmt.Sprintf(verb, set)
		for _, secret := range []string{"dbsecret", "natssecret", encryptionKey, strings.Repeat("k", 32)} {
			if strings.Contains(text, secret) {
				t.Errorf("%s prints a secret", verb)
			}
		}
	}
}

// For people, a setting has its value and its source, and of a secret nothing that opens anything.
func TestGiven(t *testing.T) {
	t.Parallel()
	values := required()
	values[settings.DatabaseURL] = "postgres://u:dbsecret@h:5432/d?password=dbsecret"
	values[settings.NATSURL] = "nats://api:natssecret@a:4222, tls://natssecret@b:4222"
	values[settings.OIDCIssuer], values[settings.OIDCClientID], values[settings.OIDCClientSecret] = "https://id.example.com", "c", "oidcsecret"
	set, err := settings.Load(settings.API, settings.MadeFrom(map[string]string{settings.Retention: "24h"}), settings.MadeFrom(values))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]settings.Given)
	for _, g := range set.Given {
		if _, twice := got[g.Name]; twice {
			t.Errorf("%s is there twice", g.Name)
		}
		got[g.Name] = g
	}
	for _, want := range []settings.Given{
		{Name: settings.DatabaseURL, Value: "postgres://h:5432/d", Source: 1}, {Name: settings.NATSURL, Value: "nats://a:4222,tls://b:4222", Source: 1},
		{Name: settings.AdminKey, Value: "set", Source: 1}, {Name: settings.EncryptionKey, Value: "set", Source: 1}, {Name: settings.OIDCClientSecret, Value: "set", Source: 1},
		{Name: settings.Retention, Value: "24h", Source: 0}, {Name: settings.BusRetention, Value: "72h", Source: -1},
	} {
		if diff := cmp.Diff(want, got[want.Name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
	for _, spec := range settings.Specs() {
		if _, there := got[spec.Name]; spec.UsedBy(settings.API) != there {
			t.Errorf("%s: told %v", spec.Name, there)
		}
		if secret := regexp.MustCompile(`KEY$|SECRET|PASSWORD|TOKEN`).MatchString(spec.Name); secret && !spec.Secret {
			t.Errorf("%s is told to everybody", spec.Name)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "waybill.env")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	source, err := settings.ReadFile(write("# a comment\n\nexport WAYBILL_HTTP_ADDR=':1'\n WAYBILL_OPS_ADDR = \":2\"\nWAYBILL_RETENTION=96h\n"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := settings.Load(settings.Dev, source)
	if err != nil || set.HTTPAddr != ":1" || set.OpsAddr != ":2" || set.Retention != 96*time.Hour {
		t.Errorf("read %+v, %v", set, err)
	}
	path := write("WAYBILL_HTTP=:1\nno assignment hush\nWAYBILL_DATA_DIR=a\nWAYBILL_DATA_DIR=b\nhu-sh=1\n")
	_, err = settings.ReadFile(path)
	want := path + " line 1: WAYBILL_HTTP is not a setting\n" + path + " line 2: is not of the form NAME=value\n" +
		path + " line 4: WAYBILL_DATA_DIR is set twice\n" + path + " line 5: the text before = is not a setting"
	if err == nil || err.Error() != want {
		t.Errorf("faults:\n%v\nwant\n%s", err, want)
	}
	if _, err := settings.ReadFile(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a file that is missing is no error")
	}
}

func TestEverySettingOfTheContractHasItsFlag(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"WAYBILL_HTTP_ADDR": "http", "WAYBILL_OPS_ADDR": "ops", "WAYBILL_NATS_ADDR": "nats", "WAYBILL_NATS_URL": "nats-url",
		"WAYBILL_DATABASE_URL": "database-url", "WAYBILL_DATA_DIR": "data", "WAYBILL_ADMIN_KEY": "admin-key",
		"WAYBILL_ENCRYPTION_KEY": "", "WAYBILL_ROUTES_DIR": "routes", "WAYBILL_EGRESS_ALLOW": "egress-allow",
		"WAYBILL_EGRESS_HTTP": "", "WAYBILL_RETRY_SCHEDULE": "", "WAYBILL_RETENTION": "", "WAYBILL_BUS_RETENTION": "",
		"WAYBILL_DEDUPE_WINDOW": "", "WAYBILL_DISABLE_AFTER": "", "WAYBILL_RATE_LIMIT": "",
	}
	got := make(map[string]string)
	for _, spec := range settings.Specs() {
		if _, ok := want[spec.Name]; ok {
			got[spec.Name] = spec.Flag
			if !spec.UsedBy(settings.Dev) {
				t.Errorf("%s is not taken by waybill dev", spec.Name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-contract +code):\n%s", diff)
	}
}

func TestEdgeSettings(t *testing.T) {
	t.Parallel()
	defaults, err := settings.Load(settings.Dev)
	if err != nil || defaults.BodyMemory != 256<<20 || defaults.MaxConnections != 4096 || defaults.TrustedProxies != nil || defaults.PublicURL != "" || defaults.OpsHosts != nil {
		t.Errorf("defaults: %+v, %v", defaults, err)
	}
	got, err := settings.Load(settings.Dev, settings.MadeFrom(map[string]string{
		settings.BodyMemory: "64MiB", settings.MaxConnections: "100", settings.TrustedProxies: "10.0.0.0/8, 2001:db8::/32",
		settings.PublicURL: "https://example.com/waybill/", settings.OpsHosts: "Ops.example.com, other.example",
	}))
	if err != nil || got.BodyMemory != 64<<20 || got.MaxConnections != 100 || len(got.TrustedProxies) != 2 || got.PublicURL != "https://example.com/waybill" {
		t.Errorf("given: %+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"ops.example.com", "other.example"}, got.OpsHosts); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for text, want := range map[string]int64{"16777216": 16 << 20, "20480KiB": 20 << 20, "2GiB": 2 << 30, "17000000B": 17_000_000} {
		if got, err := settings.Load(settings.Dev, settings.MadeFrom(map[string]string{settings.BodyMemory: text})); err != nil || got.BodyMemory != want {
			t.Errorf("%s is %d, %v", text, got.BodyMemory, err)
		}
	}
	for name, texts := range map[string][]string{
		settings.BodyMemory:     {"0", "1MiB", "-1", "64MB", "64 MiB", "x", "MiB", "99999999999999999999", "9999999999GiB", "1e9"},
		settings.MaxConnections: {"0", "15", "-1", "x", "1000001", "1.5"},
		settings.TrustedProxies: {"10.0.0.1", "proxy", "10.0.0.0/33", "*"},
		settings.OIDCIssuer:     {"id.example.com", "ftp://id.example.com", "https://id.example.com?x"},
		settings.PublicURL:      {"example.com", "/waybill", "ftp://example.com", "https://", "https://u@example.com", "https://example.com?x", "https://example.com#x"},
		settings.GatewayDomain:  {"gateway.example.com:80", "127.0.0.1", "a..b", "-a.example", "http://a", "a_b.example", "*.example.com", ".", "a.example.", strings.Repeat("a.", 100) + "example"},
		settings.GatewayURL:     {"gateway.example.com", "ftp://gateway.example.com", "https://gateway.example.com/routes", "https://127.0.0.1", "https://[::1]:80", "https://u@gateway.example.com", "https://a_b.example"},
		settings.OpsHosts:       {"a:80", "http://a", "*.example.com", "a,,b"},
		settings.TLSAddr:        {"8443", ":99999", "a:b:c"},
		settings.ACMEDirectory:  {"acme.example.com", "ftp://acme.example.com/directory", "https://u@acme.example.com/directory"},
	} {
		for _, text := range texts {
			if _, err := settings.Load(settings.Dev, settings.MadeFrom(map[string]string{name: text})); err == nil || !strings.HasPrefix(err.Error(), name+" ") {
				t.Errorf("%s as %s: %v", text, name, err)
			}
		}
	}
}

// Where deployments are reached is said once: the domain follows from the URL, unless it is set.
func TestGatewaySettings(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		role                settings.Role
		url, domain         string
		wantURL, wantDomain string
		fault               string
	}{
		{role: settings.Dev, wantDomain: "gateway.localhost"},
		{role: settings.Gateway, wantDomain: "gateway.localhost"},
		{role: settings.Gateway, domain: "Routes.Example.com", wantDomain: "routes.example.com"},
		{role: settings.API},
		{role: settings.API, url: "http://Gateway.Example.com:8082/", wantURL: "http://gateway.example.com:8082"},
		{role: settings.API, url: "http://gateway.example.com:80", wantURL: "http://gateway.example.com"},
		{role: settings.API, url: "https://gateway.example.com:443", wantURL: "https://gateway.example.com"},
		{role: settings.API, url: "https://gateway.example.com:80", wantURL: "https://gateway.example.com:80"},
		{role: settings.Dev, url: "https://routes.example.com", wantURL: "https://routes.example.com", wantDomain: "routes.example.com"},
		{role: settings.Dev, url: "https://routes.example.com:8443", domain: "routes.example.com", wantURL: "https://routes.example.com:8443", wantDomain: "routes.example.com"},
		{role: settings.Dev, url: "https://routes.example.com", domain: "example.com", fault: settings.GatewayURL},
	} {
		given := required()
		given[settings.GatewayURL], given[settings.GatewayDomain] = row.url, row.domain
		got, err := settings.Load(row.role, settings.MadeFrom(given))
		if row.fault != "" {
			if err == nil || !strings.HasPrefix(err.Error(), row.fault+" ") {
				t.Errorf("%+v: %v", row, err)
			}
			continue
		}
		if err != nil || got.GatewayURL != row.wantURL || got.GatewayDomain != row.wantDomain {
			t.Errorf("%+v: %q, %q, %v", row, got.GatewayURL, got.GatewayDomain, err)
		}
	}
}

// A certificate needs its key. Gateways and dev can do without both: custom domains bring their own.
func TestTLSSettings(t *testing.T) {
	t.Parallel()
	const address, cert, key = settings.TLSAddr, settings.TLSCert, settings.TLSKey
	for _, row := range []struct {
		role   settings.Role
		values map[string]string
		want   string
	}{
		{settings.API, map[string]string{address: ":8443"}, "WAYBILL_TLS_CERT is required when WAYBILL_TLS_ADDR is set"},
		{settings.API, map[string]string{address: ":8443", cert: "c.pem"}, "WAYBILL_TLS_KEY is required when WAYBILL_TLS_CERT is set"},
		{settings.API, map[string]string{address: ":8443", key: "hush"}, "WAYBILL_TLS_CERT is required when WAYBILL_TLS_KEY is set"},
		{settings.API, map[string]string{address: ":8443", cert: "c.pem", key: "c.key"}, ""},
		{settings.Dev, map[string]string{address: "127.0.0.1:8443"}, ""},
		{settings.Dev, map[string]string{cert: "c.pem"}, "WAYBILL_TLS_KEY is required when WAYBILL_TLS_CERT is set"},
	} {
		values := map[string]string{}
		if row.role == settings.API {
			values = required()
		}
		maps.Copy(values, row.values)
		_, err := settings.Load(row.role, settings.MadeFrom(values))
		want := row.want
		if want == "" {
			want = "<nil>"
		}
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%v with %v: %s, want %q", row.role, row.values, got, row.want)
		}
	}
}
