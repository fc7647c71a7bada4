package pgtest

import "syscall"

// processAttributes puts the server into its own process group, so that a Ctrl-C on the terminal
// does not reach the server before its tests are done, and asks the kernel to end the server when
// this process is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}
