//go:build !linux

package store

import "os"

// syncFile flushes a file to the disk.
func syncFile(file *os.File) error { return file.Sync() }
