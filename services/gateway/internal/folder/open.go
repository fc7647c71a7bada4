package folder

import (
	"bytes"
	"io"
	"io/fs"
	"time"
)

// fileInfo describes a file or, if there is none, a folder.
type fileInfo struct {
	name string
	file *file
}

func (i fileInfo) Name() string { return i.name }
func (i fileInfo) IsDir() bool  { return i.file == nil }
func (i fileInfo) Sys() any     { return nil }

func (i fileInfo) Size() int64 {
	if i.file == nil {
		return 0
	}
	return i.file.size
}

func (i fileInfo) Mode() fs.FileMode {
	if i.file == nil {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

func (i fileInfo) ModTime() time.Time {
	if i.file == nil {
		return time.Time{}
	}
	return i.file.changed
}

// openFile is a file that is being read.
type openFile struct {
	*bytes.Reader

	info fileInfo
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (*openFile) Close() error                 { return nil }

// openDir is a folder that is being listed.
type openDir struct {
	info    fileInfo
	entries []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (*openDir) Close() error                 { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.entries) {
		n = len(d.entries)
	}
	entries := d.entries[:n]
	d.entries = d.entries[n:]
	return entries, nil
}
