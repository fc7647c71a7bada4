//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"syscall"
)

// private reports whether only the owner has rights.
func private(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }

func writableByOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

func ownedByUs(info fs.FileInfo) bool {
	system, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(system.Uid) == os.Geteuid()
}
