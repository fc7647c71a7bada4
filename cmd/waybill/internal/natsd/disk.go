package natsd

import (
	"io/fs"
	"path/filepath"
)

// usedSpace returns the bytes that the files beneath dir take.
func usedSpace(dir string) int64 {
	var sum int64
	// A file that disappears in the meantime is not counted; the number is approximate anyway.
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // see above
		}
		if info, err := entry.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
