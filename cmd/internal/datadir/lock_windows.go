package datadir

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock locks the file for this process until it is closed or the process ends in any way. The
// locked byte is behind the content, so that others can read that.
func lock(file *os.File) error {
	region := &windows.Overlapped{Offset: 1 << 20}
	err := windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, region)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// locked reports whether another process has locked the file.
func locked(file *os.File) bool {
	region := &windows.Overlapped{Offset: 1 << 20}
	err := windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, region)
	if err == nil {
		_ = windows.UnlockFileEx(windows.Handle(file.Fd()), 0, 1, 0, region)
	}
	return errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}
