package datadir

import "syscall"

// Space returns the bytes that an ordinary user may still write on the disk of dir, and the size of the
// disk; false: not known.
func Space(dir string) (free, total int64, ok bool) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, 0, false
	}
	return int64(stat.Bavail) * stat.Bsize, int64(stat.Blocks) * stat.Bsize, true
}
