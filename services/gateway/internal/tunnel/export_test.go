package tunnel

import "net"

// Watch counts the frames on a connection as it is done with an agent's.
func Watch(c net.Conn) net.Conn { return &watchedConn{Conn: c} }
