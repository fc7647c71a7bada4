// Package datadir is the directory in which an all-in-one installation keeps what it
// must not lose: database, bus and keys. One process uses it at a time.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"waybill.dev/shared/domain"
)

// The names of what lies in the directory.
const (
	AdminKey      = "admin.key"
	EncryptionKey = "encryption.key"
	database      = "waybill.db"
	nats          = "nats"
	lockFile      = "lock"
	addresses     = "addresses.json"
)

// Dir is a data directory that this process has for itself.
type Dir struct {
	path string
	lock *os.File
}

// errLocked is what lock returns when another process has the file.
var errLocked = errors.New("locked")

// Open makes the directory if need be and takes it for this process. It fails with one
// sentence when it can't be written to, or when another process has it.
func Open(path string) (*Dir, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := os.MkdirAll(absolute, 0o700); err != nil {
		return nil, unwritable(absolute, err)
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
	// Whom to look for; only for the sentence above, so a failure is no matter.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return &Dir{path: absolute, lock: file}, nil
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

// Path returns the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// Database returns the URL of the SQLite database in the directory.
func (d *Dir) Database() domain.Secret {
	return domain.Secret("sqlite:" + filepath.Join(d.path, database))
}

// NATS returns where the embedded server keeps its streams.
func (d *Dir) NATS() string { return filepath.Join(d.path, nats) }

// Close gives the directory back.
func (d *Dir) Close() error {
	_ = os.Remove(filepath.Join(d.path, addresses)) // what it names is gone
	return d.lock.Close()
}

// Key returns the secret that is kept under name. When there is none yet, it is made and
// kept, readable by the owner alone.
func (d *Dir) Key(name string, fresh func() string) (domain.Secret, error) {
	secret, err := ReadKey(d.path, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	secret = domain.Secret(fresh())
	if err := d.write(name, []byte(secret.Reveal()+"\n")); err != nil {
		return "", fmt.Errorf("keep %s: %w", name, err)
	}
	return secret, nil
}

// ReadKey returns the secret that the installation in directory path keeps under name. It
// may be read while another process has the directory.
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

// Announce leaves the addresses for the commands that look for a running installation;
// Close removes them.
func (d *Dir) Announce(a Addresses) error {
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("announce addresses: %w", err)
	}
	if err := d.write(addresses, append(text, '\n')); err != nil {
		return fmt.Errorf("announce addresses: %w", err)
	}
	return nil
}

// Announced returns the addresses of the installation in directory path; ok is false when
// none has announced itself.
func Announced(path string) (a Addresses, ok bool) {
	text, err := os.ReadFile(filepath.Join(path, addresses))
	if err != nil || json.Unmarshal(text, &a) != nil {
		return Addresses{}, false
	}
	return a, true
}

// write puts a file in place whole or not at all: a crash never leaves half a key.
func (d *Dir) write(name string, content []byte) (err error) {
	partial, err := os.CreateTemp(d.path, name+".*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(partial.Name())
		}
	}()
	_, err = partial.Write(content)
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
