package jsonscan

import (
	"bytes"
	"hash/maphash"
	"unicode/utf8"
)

// The names of an object are stored as their places in the text: four bytes each. Up to fewNames
// names are compared one by one; more are in a hash table that is at most three quarters full.
const (
	fewNames   = 16
	firstTable = 64
	keepTable  = 4 << 10
)

// A place in the text takes 31 bits. The last bit says that the name has escapes. 0 is a free
// entry, because no name is at the beginning of a text.
const escapedName = 1 << 31

// seed makes the places in a table unpredictable.
var seed = maphash.MakeSeed() //nolint:gochecknoglobals // never written again

// addName notes the name at start; false: the object has that name already. The cost grows with the
// length of the name.
func (s *Scanner) addName(f *frame, start int, name []byte, escaped bool) bool {
	entry := uint32(start) // below 2 GiB
	if escaped {
		entry |= escapedName
	}
	if f.table == nil {
		few := s.names[f.first:]
		for _, other := range few {
			if s.isName(other, name) {
				return false
			}
		}
		if len(few) < fewNames {
			s.names = append(s.names, entry)
			return true
		}
		s.tabulateNames(f)
	}
	return s.insert(f, entry, name)
}

// tabulateNames puts the object's names into a table.
func (s *Scanner) tabulateNames(f *frame) {
	few := s.names[f.first:]
	if s.spare != nil {
		f.table, s.spare = s.spare, nil
	} else {
		f.table = make([]uint32, firstTable)
	}
	f.count = len(few)
	for _, entry := range few {
		place(f.table, entry, s.hash(entry))
	}
	s.names = s.names[:f.first]
}

// insert adds a name to the table; false: the table has it already.
func (s *Scanner) insert(f *frame, entry uint32, name []byte) bool {
	mask := uint64(len(f.table) - 1)
	at := maphash.Bytes(seed, name) & mask
	for ; f.table[at] != 0; at = (at + 1) & mask {
		if s.isName(f.table[at], name) {
			return false
		}
	}
	f.table[at] = entry
	f.count++
	if f.count*4 > len(f.table)*3 {
		larger := make([]uint32, s.growthFactor(f, int(entry&^escapedName))*len(f.table))
		for _, entry := range f.table {
			if entry != 0 {
				place(larger, entry, s.hash(entry))
			}
		}
		f.table = larger
	}
	return true
}

// growthFactor returns the factor by which the object's table grows. Filling a large table again is slow,
// because each name is read again: so it is done half as often if the rest of the text has room for
// that many names.
func (s *Scanner) growthFactor(f *frame, at int) int {
	const perMember = len(`"":0,`)
	if len(f.table) >= keepTable && (len(s.body)-at)/perMember > 2*f.count {
		return 4
	}
	return 2
}

func place(table []uint32, entry uint32, hash uint64) {
	mask := uint64(len(table) - 1)
	at := hash & mask
	for table[at] != 0 {
		at = (at + 1) & mask
	}
	table[at] = entry
}

// forgetNames removes the names of an object. A small table is kept for the next object.
func (s *Scanner) forgetNames(f *frame) {
	s.names = s.names[:f.first]
	if f.table != nil && len(f.table) <= keepTable {
		clear(f.table)
		s.spare = f.table
	}
}

// isName reports whether the name of an entry is name.
func (s *Scanner) isName(entry uint32, name []byte) bool {
	at := int(entry&^escapedName) + 1
	if entry&escapedName != 0 {
		return spells(s.body[at:], name)
	}
	end := at + len(name)
	return end < len(s.body) && s.body[end] == '"' && bytes.Equal(s.body[at:end], name) &&
		bytes.IndexByte(name, '"') < 0 // otherwise the entry's name ends before that
}

// spells reports whether the text of a string with escapes is name; rest begins after the first
// quote. It stops at the first difference.
func spells(rest, name []byte) bool {
	var room [utf8.UTFMax]byte
	for rest[0] != '"' {
		part, n := rest[:1], 1
		if rest[0] == '\\' {
			part, n = appendEscape(room[:0], rest)
		}
		if !bytes.HasPrefix(name, part) {
			return false
		}
		rest, name = rest[n:], name[len(part):]
	}
	return len(name) == 0
}

func (s *Scanner) hash(entry uint32) uint64 {
	at := int(entry &^ escapedName)
	raw, escaped := text(s.body, at)
	if escaped {
		s.other = appendText(s.other[:0], raw)
		return maphash.Bytes(seed, s.other)
	}
	return maphash.Bytes(seed, raw[1:len(raw)-1])
}
