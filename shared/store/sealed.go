package store

import "errors"

var errNoKeys = errors.New("no encryption key was given")

// noKeys is used when no encryption key was given.
type noKeys struct{}

func (noKeys) Seal([]byte, []byte) []byte { return nil }

func (noKeys) Open([]byte, []byte) ([]byte, error) { return nil, errNoKeys }

// Seal encrypts the value of a column. It fails if there is no encryption key. The additional data
// bind the value to its row and column.
func (s *Store) Seal(plain, additional []byte) ([]byte, error) {
	sealed := s.keys.Seal(plain, additional)
	if len(sealed) == 0 {
		return nil, errNoKeys
	}
	return sealed, nil
}

// Unseal decrypts the result of Seal for the same additional data.
func (s *Store) Unseal(sealed, additional []byte) ([]byte, error) {
	return s.keys.Open(sealed, additional)
}
