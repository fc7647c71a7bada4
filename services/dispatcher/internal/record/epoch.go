package record

import "cmp"

// Epoch is one life of the server that a process is connected to: the id that the server has from one start to the
// next. Messages that were stored in one epoch may be missing in the next.
type Epoch string

// unknown is the epoch of what was stored while no server was connected.
const unknown = Epoch("none")

// EpochOf returns the epoch of a server's id; empty: none is connected, which is an epoch that
// never comes again.
func EpochOf(server string) Epoch { return cmp.Or(Epoch(server), unknown) }

// Holds reports whether what was stored in e is still there while the server of that id is
// connected. The zero Epoch is that of what the database has: it always is.
func (e Epoch) Holds(server string) bool { return e == "" || string(e) == server }
