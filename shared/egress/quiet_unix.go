//go:build unix

package egress

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// isQuiet reports whether nothing has come over an idle connection, neither its end nor unexpected
// bytes. Otherwise a POST on it would fail, and could not be sent again.
func isQuiet(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	access, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	still := false
	// Control and not Read, because Read checks the deadline of the attempt before.
	err = access.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		still = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && still
}
