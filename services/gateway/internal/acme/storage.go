package acme

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/domains"
)

// lockPoll is the time between two attempts to get a lock that another process has.
const lockPoll = 500 * time.Millisecond

// storage keeps certificates and what belongs to them, such as keys and locks, in the database. All
// gateways on the database share one storage.
type storage struct {
	store Store
	owner string // this process, as the owner of locks

	mu         sync.Mutex
	renewals   map[string]func() // by lock: ends its renewal
	lost       map[string]bool   // locks that could not be renewed; nothing is stored under them
	localLocks map[string]chan struct{}
}

// errLost is returned for actions whose lock another process may have by now.
var errLost = errors.New("the lock of the certificate was lost")

func newStorage(store Store, owner string) *storage {
	return &storage{store: store, owner: owner, renewals: make(map[string]func()), lost: make(map[string]bool), localLocks: make(map[string]chan struct{})}
}

var _ certmagic.Storage = (*storage)(nil)

// notFound turns an error of the store into the kind that certmagic looks for.
func notFound(err error) error {
	if errors.Is(err, domain.ErrNotFound) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

func (s *storage) Store(ctx context.Context, key string, value []byte) error {
	if s.isLost(key) {
		return errLost
	}
	return s.store.PutACME(ctx, key, value)
}

// lockPrefix begins the names that certmagic gives to its locks of certificates.
const lockPrefix = "issue_cert_"

// isLost reports whether the lock that protects a key was lost.
func (s *storage) isLost(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.lost {
		subject, ok := strings.CutPrefix(name, lockPrefix)
		if key == name || ok && slices.Contains(strings.Split(key, "/"), certmagic.StorageKeys.Safe(subject)) {
			return true
		}
	}
	return false
}

func (s *storage) Load(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.store.ACME(ctx, key)
	return value, notFound(err)
}

func (s *storage) Delete(ctx context.Context, key string) error { return s.store.DeleteACME(ctx, key) }

func (s *storage) Exists(ctx context.Context, key string) bool {
	keys, err := s.store.ACMEKeys(ctx, key)
	return err == nil && len(keys) > 0
}

// List returns the keys below a key; without recursive, only those directly below it.
func (s *storage) List(ctx context.Context, path string, recursive bool) ([]string, error) {
	keys, err := s.store.ACMEKeys(ctx, path)
	if err != nil {
		return nil, err
	}
	prefix := path + "/"
	if path == "" {
		prefix = ""
	}
	var list []string
	for _, key := range keys {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue // the key itself
		}
		if name, _, deeper := strings.Cut(rest, "/"); deeper && !recursive {
			key = prefix + name
		}
		list = append(list, key)
	}
	if len(list) == 0 {
		return nil, fs.ErrNotExist
	}
	return slices.Compact(list), nil
}

func (s *storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	value, modified, err := s.store.ACME(ctx, key)
	if err == nil {
		return certmagic.KeyInfo{Key: key, Modified: modified, Size: int64(len(value)), IsTerminal: true}, nil
	}
	if errors.Is(err, domain.ErrNotFound) && s.Exists(ctx, key) {
		return certmagic.KeyInfo{Key: key}, nil
	}
	return certmagic.KeyInfo{}, notFound(err)
}

// Lock waits for the lock of a name. The lock is renewed until Unlock, so that it expires soon after this
// process ends.
func (s *storage) Lock(ctx context.Context, name string) error {
	if err := s.enter(ctx, name); err != nil {
		return err
	}
	for {
		taken, err := s.store.LockACME(ctx, name, s.owner)
		if err != nil {
			s.leave(name)
			return err
		}
		if taken {
			s.renewLock(ctx, name)
			return nil
		}
		select {
		case <-ctx.Done():
			s.leave(name)
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// enter waits until no other goroutine of this process has the lock: the database sees the whole process
// as one owner.
func (s *storage) enter(ctx context.Context, name string) error {
	for {
		s.mu.Lock()
		busy := s.localLocks[name]
		if busy == nil {
			s.localLocks[name] = make(chan struct{})
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-busy:
		}
	}
}

func (s *storage) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.localLocks[name])
	delete(s.localLocks, name)
}

// renewLock renews a lock. A lock that was not renewed in time is lost, even if no other gateway has taken it.
func (s *storage) renewLock(ctx context.Context, name string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(domains.LockRenewal)
		defer ticker.Stop()
		for renewed := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			began := time.Now()
			taken, err := s.store.LockACME(ctx, name, s.owner)
			switch {
			case err == nil && !taken, time.Since(renewed) >= domains.LockTime:
				s.mu.Lock()
				s.lost[name] = true
				s.mu.Unlock()
				return
			case err == nil:
				renewed = began
			} // after a failed renewal, the next one comes before the lock expires
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewals[name] = func() {
		cancel()
		<-done
	}
}

const unlockTime = 5 * time.Second

// Unlock gives a lock back, also when the work under it was cancelled.
func (s *storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	end := s.renewals[name]
	delete(s.renewals, name)
	s.mu.Unlock()
	if end == nil {
		return fmt.Errorf("unlock certificate: there is no lock %s", name)
	}
	end()
	defer s.leave(name)
	s.mu.Lock()
	lost := s.lost[name]
	delete(s.lost, name)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTime)
	defer cancel()
	err := s.store.UnlockACME(ctx, name, s.owner) // if the lock belongs to another process by now, it stays with that process
	if lost {
		err = errors.Join(errLost, err)
	}
	return err
}
