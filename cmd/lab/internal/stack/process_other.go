//go:build unix && !linux

package stack

import "syscall"

// attributes put a process into its own group, so that a Ctrl-C on the terminal reaches
// it through its stack alone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
