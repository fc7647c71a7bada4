package store

import "errors"

var errNoKeys = errors.New("no encryption key was given")

// noKeys stands in where no encryption key was given.
type noKeys struct{}

func (noKeys) Seal([]byte, []byte) []byte { return nil }

func (noKeys) Open([]byte, []byte) ([]byte, error) { return nil, errNoKeys }

// Seal encrypts the value of a column, or says that there is nothing to do so with. The
// additional data bind it to its row and column.
func (s *Store) Seal(plain, additional []byte) ([]byte, error) {
	sealed := s.keys.Seal(plain, additional)
	if len(sealed) == 0 {
		return nil, errNoKeys
	}
	return sealed, nil
}

// Unseal decrypts what Seal returned for the same additional data.
func (s *Store) Unseal(sealed, additional []byte) ([]byte, error) {
	return s.keys.Open(sealed, additional)
}
