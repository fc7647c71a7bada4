// Package datadir handles the directory in which an all-in-one installation keeps everything that
// it must not lose: database, bus and keys. One process uses it at a time.
package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"waybill.dev/shared/domain"
)

// The names of the files in the directory.
const (
	AdminKey      = "admin.key"
	EncryptionKey = "encryption.key"
	Database      = "waybill.db"
	nats          = "nats"
	lockFile      = "lock"
	addresses     = "addresses.json"

	maxAddresses = 64 << 10 // maximum size of the file, in bytes
)

// Dir is a data directory that this process has locked.
type Dir struct {
	path string
	lock *os.File
	// tightened lists the files that other users could read or write before Open.
	tightened []string
}

// errLocked is returned by lock if another process holds the lock.
var errLocked = errors.New("locked")

// Open makes the directory if needed and locks it for this process. Files that other users may read
// or write are made private: the directory gets mode 0700, the files in it 0600. Open fails with
// one sentence if the directory can't be written to or made private, or if another process holds
// the lock.
func Open(path string) (*Dir, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := os.MkdirAll(absolute, 0o700); err != nil {
		return nil, unwritable(absolute, err)
	}
	tightened, err := tighten(absolute)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(absolute, lockFile)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(absolute, err)
	}
	if err := lock(file); err != nil {
		defer file.Close()
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("lock data directory %s: %w", absolute, err)
		}
		return nil, fmt.Errorf("data directory %s is in use by another waybill process%s: stop it, or choose another directory with --data", absolute, holder(file))
	}
	// The process id is only for the message above, so a failure does not matter.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return &Dir{path: absolute, lock: file, tightened: tightened}, nil
}

// Fresh opens a directory for a new installation: it must be missing or empty.
func Fresh(path string) (*Dir, error) {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read data directory: %w", err)
	}
	if running, pid := Held(path); running {
		return nil, fmt.Errorf("data directory %s is in use by another waybill process%s: choose another directory with --data", path, pid)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("data directory %s is not empty: choose another with --data, or move away what is in it", path)
	}
	return Open(path)
}

// Held reports whether a process holds the lock, and returns its id as text for a message. It
// changes nothing.
func Held(path string) (held bool, pid string) {
	file, err := os.Open(filepath.Join(path, lockFile))
	if err != nil {
		return false, ""
	}
	defer file.Close()
	if !locked(file) {
		return false, ""
	}
	return true, holder(file)
}

// tighten makes the directory and the files in it private, and returns those that other users could
// access, with their modes. If other users could write to the directory, no file may belong to
// them: they would know a key that they have put there.
func tighten(path string) (tightened []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unwritable(path, err)
	}
	foreign := writableByOthers(info)
	if !private(info) {
		if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a directory
			return nil, fmt.Errorf("data directory %s is open to others (mode %04o) and belongs to another user: become its owner, or choose another directory with --data", path, info.Mode().Perm())
		}
		tightened = append(tightened, describe(path, info))
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, unwritable(path, err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return nil, unwritable(path, err)
		}
		if foreign && !ownedByUs(info) {
			return nil, fmt.Errorf("data directory %s was open to others, and %s in it belongs to another user: remove that file, or choose another directory with --data", path, entry.Name())
		}
		mode := fs.FileMode(0o600)
		if info.IsDir() {
			mode = 0o700
		}
		if private(info) || !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		name := filepath.Join(path, entry.Name())
		if err := os.Chmod(name, mode); err != nil {
			return nil, unwritable(name, err)
		}
		tightened = append(tightened, describe(name, info))
	}
	return tightened, nil
}

func describe(path string, info fs.FileInfo) string {
	return fmt.Sprintf("%s (mode %04o)", path, info.Mode().Perm())
}

func unwritable(path string, err error) error {
	reason := err
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		reason = inner.Err
	}
	return fmt.Errorf("data directory %s can't be written to (%w): make it writable, or choose another with --data", path, reason)
}

func holder(file *os.File) string {
	text := make([]byte, 20)
	n, _ := file.ReadAt(text, 0)
	if pid, err := strconv.Atoi(string(text[:n])); err == nil {
		return fmt.Sprintf(" (pid %d)", pid)
	}
	return ""
}

// Tightened returns the files that other users could read or write before Open, each with its mode.
func (d *Dir) Tightened() []string { return d.tightened }

// Path returns the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// Database returns the URL of the SQLite database in the directory.
func (d *Dir) Database() domain.Secret {
	return domain.Secret("sqlite:" + filepath.Join(d.path, Database))
}

// NATS returns the folder of the embedded server's streams.
func (d *Dir) NATS() string { return filepath.Join(d.path, nats) }

// Close gives the directory back.
func (d *Dir) Close() error {
	_ = os.Remove(filepath.Join(d.path, addresses)) // these addresses no longer answer
	return d.lock.Close()
}

// Put keeps a file of the installation whole or not at all, readable by the owner alone.
func (d *Dir) Put(name string, content io.Reader) error {
	if err := d.write(name, content); err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	return nil
}

// File returns the path of a file of the installation.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// Key returns the secret that is stored under name. If there is none yet, Key makes one and stores
// it, readable only by the owner.
func (d *Dir) Key(name string, fresh func() string) (domain.Secret, error) {
	secret, err := ReadKey(d.path, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	secret = domain.Secret(fresh())
	if err := d.write(name, strings.NewReader(secret.Reveal()+"\n")); err != nil {
		return "", fmt.Errorf("keep %s: %w", name, err)
	}
	return secret, nil
}

// ReadKey returns the secret that the installation in directory path stores under name. It works
// while another process holds the lock.
func ReadKey(path, name string) (domain.Secret, error) {
	text, err := os.ReadFile(filepath.Join(path, name))
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("read key: %s is empty", filepath.Join(path, name))
	}
	return domain.Secret(secret), nil
}

// Addresses are the URLs of a running installation.
type Addresses struct {
	API      string `json:"api"`
	NATS     string `json:"nats"`
	Ops      string `json:"ops"`
	Receiver string `json:"receiver,omitempty"`
}

// Announce stores the addresses for commands that look for a running installation; Close removes
// them.
func (d *Dir) Announce(a Addresses) error {
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("announce addresses: %w", err)
	}
	if err := d.write(addresses, bytes.NewReader(append(text, '\n'))); err != nil {
		return fmt.Errorf("announce addresses: %w", err)
	}
	return nil
}

// Announced returns the addresses of the installation in directory path; the error is
// fs.ErrNotExist when there are none. Keys are sent to these addresses, so Announced refuses a
// directory or file that another user owns or may write to.
func Announced(path string) (Addresses, error) {
	name := filepath.Join(path, addresses)
	file, err := os.Open(name)
	if err != nil {
		return Addresses{}, fmt.Errorf("read addresses: %w", err)
	}
	defer file.Close()
	for _, look := range []func() (fs.FileInfo, error){file.Stat, func() (fs.FileInfo, error) { return os.Stat(path) }} {
		info, err := look()
		if err != nil {
			return Addresses{}, fmt.Errorf("read addresses: %w", err)
		}
		if !ownedByUs(info) || writableByOthers(info) {
			return Addresses{}, fmt.Errorf("%s is not trusted, because another user owns it or its directory, or may write there. Name the installation with --server, and its key with --key", name)
		}
	}
	var a Addresses
	if err := json.NewDecoder(io.LimitReader(file, maxAddresses)).Decode(&a); err != nil {
		return Addresses{}, fmt.Errorf("read addresses: %s is damaged: %w", name, err)
	}
	return a, nil
}

// write puts a file in place whole or not at all: a crash never leaves half a key.
func (d *Dir) write(name string, content io.Reader) (err error) {
	partial, err := os.CreateTemp(d.path, name+".*") // CreateTemp uses mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(partial.Name())
		}
	}()
	_, err = io.Copy(partial, content)
	if err == nil {
		err = partial.Sync()
	}
	if closeErr := partial.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(partial.Name(), filepath.Join(d.path, name))
	}
	return err
}
