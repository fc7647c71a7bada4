package stack

import "syscall"

// attributes put a process into its own group, so that a Ctrl-C on the terminal reaches
// it through its stack alone, and have the kernel end it when this process is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
