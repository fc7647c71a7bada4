package tunnels_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/tunnels"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what callers rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, newBench, map[string]storetest.Tests[*bench]{"tunnels": {
		"keeps what was made":                            testCreate,
		"takes a hundred an account, however fast":       testLimit,
		"finds nothing under another account":            testForeign,
		"takes agents with the token alone":              testConnect,
		"takes sixteen connections":                      testConnections,
		"lets a replaced token end":                      testRotate,
		"counts a connection as long as it is renewed":   testRenew,
		"is deleted when the last agent is gone":         testTeardown,
		"is deleted at once without agents":              testTeardownAlone,
		"is deleted though the gateway has died":         testTeardownDeadGateway,
		"holds a configuration when all agents took it":  testConfigure,
		"keeps the one before when an agent refuses":     testRefused,
		"keeps the one before when an agent is silent":   testSilent,
		"answers the same document with the same result": testSame,
		"gives a name of a service once an account":      testServiceNames,
		"tells gateways of changes":                      testServed,
		"forgets what is old":                            testPurge,
		"tells of every change in the audit log":         testAudit,
	}})
}

type bench struct {
	*storetest.Bench
	*tunnels.Tunnels
}

func newBench(b *storetest.Bench) *bench { return &bench{b, tunnels.New(b.DB)} }

const account = domain.DefaultAccount

func token(text string) domain.TunnelToken {
	return domain.TunnelToken{Hash: []byte(strings.Repeat(text, 8)), Suffix: text}
}

func (b *bench) tunnel(t *testing.T, name string) domain.Tunnel {
	t.Helper()
	made, err := b.CreateTunnel(t.Context(), account, name, token(name))
	if err != nil {
		t.Fatalf("create tunnel %s: %v", name, err)
	}
	return made
}

func (b *bench) connect(t *testing.T, with string) (tunnels.Connection, error) {
	t.Helper()
	hashes := [][]byte{[]byte("another pepper"), token(with).Hash}
	return b.ConnectTunnel(t.Context(), hashes, domain.TunnelConnection{Process: "gw-1", AgentVersion: "1.2"})
}

func (b *bench) connected(t *testing.T, with string) tunnels.Connection {
	t.Helper()
	c, err := b.connect(t, with)
	if err != nil {
		t.Fatalf("connect with %s: %v", with, err)
	}
	return c
}

func (b *bench) get(t *testing.T, id string) domain.Tunnel {
	t.Helper()
	got, err := b.GetTunnel(t.Context(), account, id)
	if err != nil {
		t.Fatalf("get tunnel: %v", err)
	}
	return got
}

func (b *bench) settle(t *testing.T, id string, open bool) {
	t.Helper()
	got, err := b.SettleTunnel(t.Context(), id)
	if err != nil || got != open {
		t.Errorf("open %t, want %t: %v", got, open, err)
	}
}

func services(names ...string) domain.TunnelServices {
	s := domain.TunnelServices{Version: 1, Services: []domain.TunnelService{}}
	for _, name := range names {
		s.Services = append(s.Services, domain.TunnelService{
			Name: name, Endpoint: "http://localhost:3000", Configurations: []domain.TunnelAccess{{Project: "shop", AccessibleBy: []string{"production"}}},
		})
	}
	return s
}

func (b *bench) configure(t *testing.T, id, status string, names ...string) domain.TunnelOperation {
	t.Helper()
	o, err := b.ConfigureTunnel(t.Context(), account, id, services(names...))
	if err != nil || o.Status != status {
		t.Fatalf("configure: %+v, %v, want %s", o, err, status)
	}
	return o
}

func (b *bench) wantServices(t *testing.T, id string, names ...string) {
	t.Helper()
	got, err := b.TunnelServices(t.Context(), account, id)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "services", services(names...), got)
}

func (b *bench) wantProvisioned(t *testing.T, o domain.TunnelOperation, status, details string) {
	t.Helper()
	got, err := b.ProvisioningOperation(t.Context(), account, o.TunnelID, o.ID)
	if err != nil || got.Status != status || !strings.Contains(got.Details, details) {
		t.Errorf("%+v, %v, want %s with %q", got, err, status, details)
	}
}

func want[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func testCreate(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	want(t, "made", domain.Tunnel{
		ID: made.ID, Account: account, Name: "warehouse", TokenSuffix: "warehouse", Status: domain.TunnelInactive,
		CreatedOn: storetest.Noon(), UpdatedOn: storetest.Noon(),
	}, made)
	want(t, "read", made, b.get(t, made.ID))
	b.wantServices(t, made.ID)
	_, err := b.CreateTunnel(t.Context(), account, "warehouse", token("x"))
	storetest.WantConflict(t, "again", err)
	_, err = b.CreateTunnel(t.Context(), "nobody", "warehouse", token("y"))
	storetest.WantNotFound(t, "in no account", err)
	second := b.tunnel(t, "office")
	b.connected(t, "office")
	list, total, err := b.ListTunnels(t.Context(), account, store.Page{Limit: 10})
	if err != nil || total != 2 {
		t.Fatalf("%d, %v", total, err)
	}
	want(t, "listed", []domain.Tunnel{made, b.get(t, second.ID)}, list)
}

func testLimit(t *testing.T, b *bench) {
	var group sync.WaitGroup
	errs := make([]error, domain.MaxTunnels+5)
	for i := range errs {
		group.Go(func() {
			_, errs[i] = b.CreateTunnel(t.Context(), account, fmt.Sprint("tunnel-", i), token(fmt.Sprint("t", i)))
		})
	}
	group.Wait()
	refused := 0
	for _, err := range errs {
		if err != nil && !errors.Is(err, domain.ErrLimit) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		}
	}
	if refused != 5 {
		t.Errorf("%d were refused", refused)
	}
}

func testForeign(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	o := b.configure(t, made.ID, domain.OperationSuccess, "orders")
	for _, key := range [][2]string{{"other", made.ID}, {account, "tun_x"}, {account, made.ID + "\x00"}, {"\xff", made.ID}} {
		_, err := b.GetTunnel(t.Context(), key[0], key[1])
		storetest.WantNotFound(t, "get", err)
		_, err = b.RotateTunnelToken(t.Context(), key[0], key[1], token("new"), 0)
		storetest.WantNotFound(t, "rotate", err)
		_, err = b.DeleteTunnel(t.Context(), key[0], key[1])
		storetest.WantNotFound(t, "delete", err)
		_, err = b.TunnelServices(t.Context(), key[0], key[1])
		storetest.WantNotFound(t, "services", err)
		_, err = b.ConfigureTunnel(t.Context(), key[0], key[1], services("orders"))
		storetest.WantNotFound(t, "configure", err)
		_, err = b.ProvisioningOperation(t.Context(), key[0], key[1], o.ID)
		storetest.WantNotFound(t, "operation", err)
	}
	_, err := b.TeardownOperation(t.Context(), account, made.ID, o.ID)
	storetest.WantNotFound(t, "an operation of another kind", err)
	others, err := b.ServicesOf(t.Context(), "other")
	if err != nil || len(others) != 0 {
		t.Errorf("%v, %v", others, err)
	}
}

func testConnect(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	b.configure(t, made.ID, domain.OperationSuccess, "orders")
	if _, err := b.connect(t, "wrong"); !errors.Is(err, tunnels.ErrToken) {
		t.Errorf("%v", err)
	}
	c := b.connected(t, "warehouse")
	want(t, "told", tunnels.ServedTunnel{ID: made.ID, Account: account, Services: services("orders")}, c.Tunnel)
	got := b.get(t, made.ID)
	want(t, "connections", []domain.TunnelConnection{{ID: c.ID, Process: "gw-1", AgentVersion: "1.2", ConnectedOn: storetest.Noon()}}, got.Connections)
	if got.Status != domain.TunnelUp {
		t.Error(got.Status)
	}
	if err := b.EndConnection(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, made.ID); got.Status != domain.TunnelDown || len(got.Connections) != 0 {
		t.Errorf("%+v", got)
	}
}

func testConnections(t *testing.T, b *bench) {
	b.tunnel(t, "warehouse")
	for range domain.MaxTunnelConnections {
		b.connected(t, "warehouse")
	}
	if _, err := b.connect(t, "warehouse"); !errors.Is(err, domain.ErrLimit) {
		t.Errorf("%v", err)
	}
	b.Clock.Advance(domain.TunnelFreshTime)
	b.connected(t, "warehouse")
}

func testRotate(t *testing.T, b *bench) {
	made := b.tunnel(t, "one")
	rotate := func(to string, overlap time.Duration) {
		t.Helper()
		got, err := b.RotateTunnelToken(t.Context(), account, made.ID, token(to), overlap)
		if err != nil || got.TokenSuffix != to {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	valid := func(names ...string) {
		t.Helper()
		var hashes [][]byte
		for _, name := range []string{"one", "two", "three", "four"} {
			hashes = append(hashes, token(name).Hash)
		}
		ends, err := b.TunnelTokens(t.Context(), hashes)
		if err != nil || len(ends) != len(names) {
			t.Errorf("%v, %v, want %v", ends, err, names)
		}
		for _, name := range names {
			if _, ok := ends[string(token(name).Hash)]; !ok {
				t.Errorf("%s has ended", name)
			}
			b.connected(t, name)
		}
	}
	rotate("two", time.Minute)
	valid("one", "two")
	b.Clock.Advance(30 * time.Second)
	rotate("three", time.Hour) // the first one ends as it would have
	valid("one", "two", "three")
	b.Clock.Advance(30 * time.Second)
	valid("two", "three")
	rotate("four", 0)
	valid("four")
	if _, err := b.connect(t, "three"); !errors.Is(err, tunnels.ErrToken) {
		t.Errorf("%v", err)
	}
}

func testRenew(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	first, second := b.connected(t, "warehouse"), b.connected(t, "warehouse")
	b.Clock.Advance(20 * time.Second)
	if err := b.RenewConnections(t.Context(), []string{first.ID}); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(20 * time.Second)
	got := b.get(t, made.ID)
	if len(got.Connections) != 1 || got.Connections[0].ID != first.ID || got.Status != domain.TunnelUp {
		t.Errorf("%+v, want no %s", got, second.ID)
	}
}

func testTeardown(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	c := b.connected(t, "warehouse")
	o, err := b.DeleteTunnel(t.Context(), account, made.ID)
	if err != nil || o.Status != domain.OperationInProgress || !strings.HasPrefix(o.ID, "tst_") {
		t.Fatalf("%+v, %v", o, err)
	}
	_, err = b.GetTunnel(t.Context(), account, made.ID)
	storetest.WantNotFound(t, "get", err)
	if _, err := b.connect(t, "warehouse"); !errors.Is(err, tunnels.ErrToken) {
		t.Errorf("%v", err)
	}
	b.tunnel(t, "warehouse") // its name is free
	b.settle(t, made.ID, true)
	if err := b.EndConnection(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	b.settle(t, made.ID, false)
	b.settle(t, made.ID, false)
	got, err := b.TeardownOperation(t.Context(), account, made.ID, o.ID)
	if err != nil || got.Status != domain.OperationSuccess {
		t.Errorf("%+v, %v", got, err)
	}
}

func testTeardownAlone(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	if o, err := b.DeleteTunnel(t.Context(), account, made.ID); err != nil || o.Status != domain.OperationSuccess {
		t.Errorf("%+v, %v", o, err)
	}
}

func testTeardownDeadGateway(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	b.connected(t, "warehouse")
	if _, err := b.DeleteTunnel(t.Context(), account, made.ID); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(domain.TunnelFreshTime)
	b.settle(t, made.ID, false)
}

func testConfigure(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	first, second := b.connected(t, "warehouse"), b.connected(t, "warehouse")
	o := b.configure(t, made.ID, domain.OperationInProgress, "orders", "stock")
	if !strings.HasPrefix(o.ID, "pst_") {
		t.Error(o.ID)
	}
	next := services("orders", "stock")
	want(t, "a later agent is told", tunnels.ServedTunnel{ID: made.ID, Account: account, Services: services(), Operation: o.ID, Next: &next}, b.connected(t, "warehouse").Tunnel)
	b.Clock.Advance(time.Second)
	for _, id := range []string{first.ID, second.ID} {
		b.settle(t, made.ID, true)
		b.wantServices(t, made.ID)
		if err := b.AnswerConfiguration(t.Context(), id, o.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	b.settle(t, made.ID, true) // the third one has not answered
	third := b.get(t, made.ID).Connections
	for _, c := range third {
		if err := b.AnswerConfiguration(t.Context(), c.ID, o.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	b.settle(t, made.ID, false)
	b.wantServices(t, made.ID, "orders", "stock")
	b.wantProvisioned(t, o, domain.OperationSuccess, "")
	held, err := b.ServicesOf(t.Context(), account)
	if err != nil || len(held) != 2 {
		t.Fatalf("%v, %v", held, err)
	}
	orders := held["orders"]
	if !orders.Allows("shop", domain.Production) || orders.Allows("shop", domain.Preview) || orders.Allows("other", domain.Production) {
		t.Errorf("%+v", orders)
	}
	if err := b.AnswerConfiguration(t.Context(), "tcn_x", o.ID, ""); !errors.Is(err, tunnels.ErrRemoved) {
		t.Errorf("%v", err)
	}
}

func testRefused(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	b.configure(t, made.ID, domain.OperationSuccess, "orders")
	b.connected(t, "warehouse")
	c := b.connected(t, "warehouse")
	o := b.configure(t, made.ID, domain.OperationInProgress, "stock")
	if err := b.AnswerConfiguration(t.Context(), c.ID, o.ID, "http://10.0.0.1 is not allowed"); err != nil {
		t.Fatal(err)
	}
	b.settle(t, made.ID, false)
	b.wantProvisioned(t, o, domain.OperationError, "10.0.0.1")
	b.wantServices(t, made.ID, "orders")
}

func testSilent(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	b.connected(t, "warehouse")
	o := b.configure(t, made.ID, domain.OperationInProgress, "stock")
	b.Clock.Advance(domain.TunnelConfigureTime - time.Millisecond)
	b.settle(t, made.ID, true)
	b.Clock.Advance(time.Millisecond)
	b.settle(t, made.ID, false)
	b.wantProvisioned(t, o, domain.OperationError, "1 of 1")
	b.wantServices(t, made.ID)
}

func testSame(t *testing.T, b *bench) {
	made := b.tunnel(t, "warehouse")
	first := b.configure(t, made.ID, domain.OperationSuccess, "orders")
	want(t, "again", first, b.configure(t, made.ID, domain.OperationSuccess, "orders"))
	b.connected(t, "warehouse")
	want(t, "with an agent", first, b.configure(t, made.ID, domain.OperationSuccess, "orders"))
	second := b.configure(t, made.ID, domain.OperationInProgress, "stock")
	want(t, "under way", second, b.configure(t, made.ID, domain.OperationInProgress, "stock"))
	if _, err := b.ConfigureTunnel(t.Context(), account, made.ID, services("orders")); !errors.Is(err, tunnels.ErrConfiguring) {
		t.Errorf("%v", err)
	}
	b.Clock.Advance(domain.TunnelConfigureTime)
	b.settle(t, made.ID, false)
	if third := b.configure(t, made.ID, domain.OperationInProgress, "stock"); third.ID == second.ID {
		t.Error("what has failed is not tried again")
	}
}

func testServiceNames(t *testing.T, b *bench) {
	one, two := b.tunnel(t, "one"), b.tunnel(t, "two")
	b.configure(t, one.ID, domain.OperationSuccess, "orders")
	_, err := b.ConfigureTunnel(t.Context(), account, two.ID, services("stock", "orders"))
	if !errors.Is(err, tunnels.ErrServiceName) || !strings.Contains(err.Error(), "orders") {
		t.Errorf("%v", err)
	}
	b.connected(t, "one")
	b.configure(t, one.ID, domain.OperationInProgress, "later")
	for _, name := range []string{"orders", "later"} { // the one that holds, and the one to come
		if _, err := b.ConfigureTunnel(t.Context(), account, two.ID, services(name)); !errors.Is(err, tunnels.ErrServiceName) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.DeleteTunnel(t.Context(), account, one.ID); err != nil {
		t.Fatal(err)
	}
	b.configure(t, two.ID, domain.OperationSuccess, "orders")
}

func testServed(t *testing.T, b *bench) {
	one := b.tunnel(t, "one")
	b.tunnel(t, "two")
	all, version, err := b.ServedTunnels(t.Context(), 0)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	b.configure(t, one.ID, domain.OperationSuccess, "orders")
	changed, later, err := b.ServedTunnels(t.Context(), version)
	if err != nil || later <= version {
		t.Fatalf("version %d after %d, %v", later, version, err)
	}
	want(t, "configured", []tunnels.ServedTunnel{{ID: one.ID, Account: account, Services: services("orders")}}, changed)
	if _, err := b.RotateTunnelToken(t.Context(), account, one.ID, token("new"), 0); err != nil {
		t.Fatal(err)
	}
	if changed, later, err = b.ServedTunnels(t.Context(), later); err != nil || len(changed) != 1 {
		t.Errorf("rotated: %v, %v", changed, err)
	}
	if _, err := b.DeleteTunnel(t.Context(), account, one.ID); err != nil {
		t.Fatal(err)
	}
	if changed, _, err = b.ServedTunnels(t.Context(), later); err != nil || len(changed) != 1 || !changed[0].Removed {
		t.Errorf("removed: %v, %v", changed, err)
	}
	if all, _, err := b.ServedTunnels(t.Context(), 0); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

func testPurge(t *testing.T, b *bench) {
	made := b.tunnel(t, "one")
	b.connected(t, "one")
	kept := b.configure(t, b.tunnel(t, "two").ID, domain.OperationSuccess, "orders")
	o, err := b.DeleteTunnel(t.Context(), account, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(domain.TunnelFreshTime)
	b.settle(t, made.ID, false)
	b.Clock.Advance(domain.TunnelOperationTime - time.Minute)
	if err := b.Purge(t.Context(), b.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.TeardownOperation(t.Context(), account, made.ID, o.ID); err != nil {
		t.Error(err)
	}
	b.Clock.Advance(2 * time.Minute)
	if err := b.Purge(t.Context(), b.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	_, err = b.TeardownOperation(t.Context(), account, made.ID, o.ID)
	storetest.WantNotFound(t, "the operation", err)
	var left int
	if err := b.DB.Reading(t.Context()).Raw("SELECT count(*) FROM gateway_tunnels").Scan(&left).Error; err != nil || left != 1 {
		t.Errorf("%d tunnels are left, %v", left, err)
	}
	b.wantServices(t, kept.TunnelID, "orders")
	if again := b.configure(t, kept.TunnelID, domain.OperationSuccess, "orders"); again.ID == kept.ID {
		t.Error("an operation that was purged came back")
	}
}

func testAudit(t *testing.T, b *bench) {
	ctx := auditlog.WithCaller(t.Context(), pipelinetest.Caller())
	made, err := b.CreateTunnel(ctx, account, "one", token("one"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ConfigureTunnel(ctx, account, made.ID, services("orders")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RotateTunnelToken(ctx, account, made.ID, token("new"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteTunnel(ctx, account, made.ID); err != nil {
		t.Fatal(err)
	}
	var actions []string
	err = b.DB.Reading(t.Context()).Raw("SELECT action FROM audit_log WHERE resources LIKE ? ORDER BY id", "%"+made.ID+"%").Scan(&actions).Error
	if err != nil {
		t.Fatal(err)
	}
	want(t, "actions", []string{auditlog.ActionCreateTunnel, auditlog.ActionConfigureTunnel, auditlog.ActionRotateTunnelToken, auditlog.ActionDeleteTunnel}, actions)
}
