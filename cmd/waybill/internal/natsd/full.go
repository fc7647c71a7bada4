package natsd

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"waybill.dev/cmd/internal/datadir"
)

const (
	// roomNeeded is how much must be free before the streams are opened again, and lookEvery how often that is
	// looked at. Between two attempts is at least resumePause.
	roomNeeded  = 64 << 20
	lookEvery   = time.Second
	resumePause = 10 * time.Second
)

// storeFailed begins the lines in which the server says that a message could not be written. What a client
// sends stands only in lines that begin otherwise: no words of it close the streams of all.
const storeFailed = "JetStream failed to store a msg on stream "

// noSpace reports whether a line of the server's log says that a message could not be written for want of room.
func noSpace(line string) bool {
	return strings.HasPrefix(line, storeFailed) &&
		(strings.Contains(line, "no space left") || strings.Contains(line, "not enough space on the disk")) // Windows
}

// resume opens the streams again once there is room. A stream that could not be written to is not written to
// again, until somebody opens it anew: the server keeps the error.
func (s *Server) resume(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var tried time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if !s.log.full.Load() || time.Since(tried) < resumePause {
			continue
		}
		if free, _, known := datadir.Space(s.dir); known && free < roomNeeded {
			continue
		}
		tried = time.Now()
		s.reopen()
	}
}

// reopen closes and opens all streams. Clients stay connected, and what they ask for meanwhile fails.
func (s *Server) reopen() {
	err := s.nats.ShutdownJetStream()
	if err == nil {
		s.log.full.Store(false) // nothing is written now
		err = s.nats.EnableJetStream(&server.JetStreamConfig{StoreDir: s.dir, SyncInterval: syncInterval, MaxStore: maxStore(s.dir)})
	}
	if err != nil {
		s.log.full.Store(true) // and again
		s.log.log.Error("the streams can't be opened again after the disk was full", "error", err)
		return
	}
	s.log.log.Info("there is room on the disk again; the bus goes on")
}
