package record

import "cmp"

// Epoch is the time from one start of the connected server to the next. Its value is the id that the server has in
// that time. Messages that were stored in one epoch may be missing in the next.
type Epoch string

// unknown is the epoch of what was stored while no server was connected.
const unknown = Epoch("none")

// EpochOf returns the epoch of a server's id. An empty id means that no server is connected: that
// epoch never holds again.
func EpochOf(server string) Epoch { return cmp.Or(Epoch(server), unknown) }

// Holds reports whether what was stored in e is still there while the server with that id is
// connected. The zero Epoch stands for the database, and always holds.
func (e Epoch) Holds(server string) bool { return e == "" || string(e) == server }
