package natsd

import "syscall"

// freeSpace returns the bytes that an ordinary user may still write on the disk of dir.
func freeSpace(dir string) (int64, bool) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, false
	}
	return int64(stat.Bavail) * stat.Bsize, true
}
