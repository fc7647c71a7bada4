package store

import "errors"

var errNoKeys = errors.New("no encryption key was given")

// noKeys stands in where no encryption key was given.
type noKeys struct{}

func (noKeys) Seal([]byte, []byte) []byte { return nil }

func (noKeys) Open([]byte, []byte) ([]byte, error) { return nil, errNoKeys }

// seal encrypts plain, or says that there is nothing to do so with.
func (s *Store) seal(plain, additional []byte) ([]byte, error) {
	sealed := s.keys.Seal(plain, additional)
	if len(sealed) == 0 {
		return nil, errNoKeys
	}
	return sealed, nil
}
