package store

import (
	"os"
	"syscall"
)

// syncPart is how many bytes are forced to the disk at a time.
const syncPart = 2 << 20

// syncFile forces a file to the disk part by part, so that others who write to the disk wait for a part alone.
func syncFile(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	const writeAndWait = 1 | 2 | 4 // SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE, _WAIT_AFTER
	for at := int64(0); at < info.Size(); at += syncPart {
		// Not every file system can; the sync at the end does the whole then.
		if err := syscall.SyncFileRange(int(file.Fd()), at, syncPart, writeAndWait); err != nil {
			break
		}
	}
	return file.Sync()
}
