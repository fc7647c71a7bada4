//go:build unix && !linux

package pgtest

import "syscall"

// processAttributes puts the server into its own process group, so that a Ctrl-C on the terminal
// does not reach the server before its tests are done.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
