package jsonscan

import (
	"bytes"
	"hash/maphash"
	"unicode/utf8"
)

// Names of an object are known by where they stand: four bytes each. Up to fewNames they are
// compared one by one, more are in a hash table, of which at most three quarters are used.
const (
	fewNames   = 16
	firstTable = 64
	keepTable  = 4 << 10
)

// A place in the text takes 31 bits. The last bit says that the name has escapes; 0 is
// a free entry, as no name stands at the beginning of a text.
const escapedName = 1 << 31

// seed makes the places in a table nobody's guess.
var seed = maphash.MakeSeed() //nolint:gochecknoglobals // never written again

// fresh notes the name at start; false: the object has it already. That costs as much as the
// name is long.
func (s *Scanner) fresh(f *frame, start int, name []byte, escaped bool) bool {
	entry := uint32(start) // below 2 GiB
	if escaped {
		entry |= escapedName
	}
	if f.table == nil {
		few := s.names[f.first:]
		for _, other := range few {
			if s.same(other, name) {
				return false
			}
		}
		if len(few) < fewNames {
			s.names = append(s.names, entry)
			return true
		}
		s.tabulate(f)
	}
	return s.insert(f, entry, name)
}

// tabulate puts the object's names into a table.
func (s *Scanner) tabulate(f *frame) {
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

// insert adds a name to the table; false: it is there.
func (s *Scanner) insert(f *frame, entry uint32, name []byte) bool {
	mask := uint64(len(f.table) - 1)
	at := maphash.Bytes(seed, name) & mask
	for ; f.table[at] != 0; at = (at + 1) & mask {
		if s.same(f.table[at], name) {
			return false
		}
	}
	f.table[at] = entry
	f.count++
	if f.count*4 > len(f.table)*3 {
		larger := make([]uint32, s.growth(f, int(entry&^escapedName))*len(f.table))
		for _, entry := range f.table {
			if entry != 0 {
				place(larger, entry, s.hash(entry))
			}
		}
		f.table = larger
	}
	return true
}

// growth says how many times larger the object's table becomes. Filling a large one anew is
// slow, as each name is read again: it is done half as often where the rest of the text has
// room for so many names.
func (s *Scanner) growth(f *frame, at int) int {
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

// forget lets the names of an object go. A small table is kept for the next one.
func (s *Scanner) forget(f *frame) {
	s.names = s.names[:f.first]
	if f.table != nil && len(f.table) <= keepTable {
		clear(f.table)
		s.spare = f.table
	}
}

// same reports whether the name of an entry is name.
func (s *Scanner) same(entry uint32, name []byte) bool {
	at := int(entry&^escapedName) + 1
	if entry&escapedName != 0 {
		return says(s.body[at:], name)
	}
	end := at + len(name)
	return end < len(s.body) && s.body[end] == '"' && bytes.Equal(s.body[at:end], name) &&
		bytes.IndexByte(name, '"') < 0 // else the entry's name has ended before
}

// says reports whether a string with escapes, of which rest begins behind the first quote, is
// name. It ends with the first difference.
func says(rest, name []byte) bool {
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
