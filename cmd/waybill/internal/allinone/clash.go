package allinone

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"

	"waybill.dev/cmd/internal/settings"
)

// ClashError says which addresses are in use, all at once.
type ClashError struct {
	names []string
	// Flags select free addresses.
	Flags []string
}

// Error implements error.
func (e *ClashError) Error() string {
	if len(e.names) == 1 {
		return e.names[0] + " is in use already"
	}
	last := len(e.names) - 1
	return strings.Join(e.names[:last], ", ") + " and " + e.names[last] + " are in use already"
}

// clashes checks whether the addresses are free. Other faults of an address are reported when a part listens
// on it. The receiver's default address is left out, because it is replaced automatically.
func clashes(ctx context.Context, s settings.Settings) error {
	wanted := []struct{ name, flag, addr string }{{"HTTP", "--http", s.HTTPAddr}, {"Ops", "--ops", s.OpsAddr}}
	if s.NATSURL == "" {
		wanted = append(wanted, struct{ name, flag, addr string }{"NATS", "--nats", s.NATSAddr})
	}
	if s.ReceiverGiven && s.ReceiverAddr != "" {
		wanted = append(wanted, struct{ name, flag, addr string }{"Receiver", "--receiver", s.ReceiverAddr})
	}
	var open []net.Listener
	defer func() {
		for _, listener := range open {
			_ = listener.Close()
		}
	}()
	listen := func(addr string) bool {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", addr)
		if err == nil {
			open = append(open, listener)
		}
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	clash := &ClashError{}
	var taken []struct{ name, flag, addr string }
	for _, one := range wanted {
		if !listen(one.addr) {
			clash.names, taken = append(clash.names, one.name+" address "+one.addr), append(taken, one)
		}
	}
	for _, one := range taken { // the others have their addresses by now
		clash.Flags = append(clash.Flags, one.flag, free(one.addr, listen))
	}
	if len(clash.names) == 0 {
		return nil
	}
	return clash
}

// free returns the next address on the same host on which listen succeeds, or in the end one with port 0,
// which the system chooses.
func free(addr string, listen func(string) bool) string {
	host, text, _ := net.SplitHostPort(addr) // can't fail: it was parsed before
	port, _ := strconv.Atoi(text)
	for n := range spare {
		if next := net.JoinHostPort(host, strconv.Itoa(port+n+1)); port+n+1 < 1<<16 && listen(next) {
			return next
		}
	}
	return net.JoinHostPort(host, "0")
}
