package folder

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"

	"waybill.dev/services/gateway/internal/routefile"
)

// The formats of archives.
const (
	Zip   = "zip"
	TarGz = "tar.gz"
)

// Bounds of what is in an archive.
const (
	maxUnpacked        = 32 << 20 // bytes, unpacked
	maxPackedFiles     = 1000
	maxPackedDepth     = 8 // folders above a file
	maxPackedRouteFile = 4 << 20
	maxPackedFile      = 1 << 20 // bytes of any other file

	// maxEntries bounds the entries of an archive that are not files.
	maxEntries = 4 * maxPackedFiles
	// maxStream bounds a tar archive with its headers, in bytes.
	maxStream = maxUnpacked + 2*maxPackedFiles<<10 + 1<<20
	// maxDirectory is how many entries the directory of a zip archive may have. They are counted
	// before the directory is read, because reading takes some 300 bytes of memory for each.
	// The entries of a zip archive that is stored inside the archive count, too.
	maxDirectory = 20 * maxPackedFiles
)

// Unpack returns the route files that an archive holds, or everything that is wrong with it. A
// single folder at the top is left out; if there is a folder config with route files, that folder
// is returned. Files and folders with names that begin with a dot, and files that macOS adds, are
// left out, but count. If ctx ends, a fault says that the check was cancelled.
func Unpack(ctx context.Context, format string, packed []byte) (fs.FS, routefile.Faults) {
	u := newUnpacking(ctx)
	var err error
	switch format {
	case Zip:
		err = u.zip(packed)
	case TarGz:
		err = u.tar(packed)
	default:
		err = errors.New("is neither zip nor tar.gz")
	}
	return u.result(err)
}

// The signature of an entry of a zip archive's directory.
const directoryEntry = "PK\x01\x02"

// zip reads a zip archive. The archive's directory lists the contents.
func (u *unpacking) zip(packed []byte) error {
	if bytes.Count(packed, []byte(directoryEntry)) > maxDirectory {
		return errFiles
	}
	read, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return errors.New("is no zip archive, or only a part of one")
	}
	if len(read.File) > maxEntries {
		return errFiles
	}
	if overlaps(read.File) {
		return errors.New("has files that overlap each other")
	}
	for _, f := range read.File {
		switch {
		case f.Flags&(1<<0|1<<6|1<<13) != 0:
			u.fault(f.Name, "is encrypted")
			continue
		case f.Method != zip.Store && f.Method != zip.Deflate:
			u.fault(f.Name, "is packed in a way that is not known; known are store and deflate")
			continue
		}
		err := u.takeEntry(f.Name, f.Mode().Type(), f.Open)
		if endsUnpacking(err) {
			return err
		} else if err != nil {
			u.fault(f.Name, "is damaged")
		}
	}
	return nil
}

// tar reads a tar archive that is compressed with gzip.
func (u *unpacking) tar(packed []byte) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return errors.New("is no tar.gz archive")
	}
	stream := &limitedReader{from: unzipped, ctx: u.ctx, remaining: maxStream}
	for read := tar.NewReader(stream); ; {
		header, err := read.Next()
		if errors.Is(err, io.EOF) {
			// Only padding follows, but the checksum is behind it.
			_, err = io.Copy(io.Discard, stream)
			return tarFault(err)
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return tarFault(err)
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue // the commit's metadata, which git adds
		}
		content := func() (io.ReadCloser, error) { return io.NopCloser(read), nil }
		if err := u.takeEntry(header.Name, kindOf(header), content); err != nil {
			return tarFault(err)
		}
	}
}

// kindOf returns the kind of an entry. Everything in tar that is neither a file nor a folder is
// irregular.
func kindOf(header *tar.Header) fs.FileMode {
	switch header.Typeflag {
	case tar.TypeReg:
		return 0
	case tar.TypeDir:
		return fs.ModeDir
	case tar.TypeLink, tar.TypeSymlink:
		return fs.ModeSymlink
	}
	return fs.ModeIrregular
}

func tarFault(err error) error {
	if err == nil || endsUnpacking(err) {
		return err
	}
	return errors.New("is no tar.gz archive, or only a part of one")
}

// endsUnpacking reports whether an error ends the unpacking, whatever the archive's format.
func endsUnpacking(err error) bool {
	_, bound := errors.AsType[fault](err)
	return bound || isContextEnd(err)
}

func isContextEnd(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// limitedReader reads up to a number of bytes, until ctx ends.
type limitedReader struct {
	from      io.Reader
	ctx       context.Context //nolint:containedctx // of the reading, which is one call
	remaining int64
}

func (c *limitedReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(p)
	if c.remaining -= int64(n); c.remaining < 0 {
		return 0, errTotal
	}
	return n, err
}
