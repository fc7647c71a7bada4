//go:build !linux

package store

import "os"

// syncFile forces a file to the disk.
func syncFile(file *os.File) error { return file.Sync() }
