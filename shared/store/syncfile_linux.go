package store

import (
	"os"
	"syscall"
)

// syncPart is how many bytes are flushed to the disk at a time.
const syncPart = 2 << 20

// syncFile flushes a file to the disk part by part, so that other processes that write to the disk wait for
// one part only.
func syncFile(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	const writeAndWait = 1 | 2 | 4 // SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE, _WAIT_AFTER
	for at := int64(0); at < info.Size(); at += syncPart {
		// Not every file system supports this; then the sync at the end flushes everything.
		if err := syscall.SyncFileRange(int(file.Fd()), at, syncPart, writeAndWait); err != nil {
			break
		}
	}
	return file.Sync()
}
