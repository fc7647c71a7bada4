package natsd

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"waybill.dev/cmd/internal/datadir"
)

const (
	// roomNeeded is how much space must be free before the streams are reopened, and lookEvery how often that
	// is checked. There is at least resumePause between two attempts.
	roomNeeded  = 64 << 20
	lookEvery   = time.Second
	resumePause = 10 * time.Second
)

// storeFailed is the beginning of the server's log lines about messages that could not be written. Text of a
// client occurs only in lines with another beginning, so no client can make the server close the streams of
// all.
const storeFailed = "JetStream failed to store a msg on stream "

// noSpace reports whether a line of the server's log says that a message could not be written for want of room.
func noSpace(line string) bool {
	return strings.HasPrefix(line, storeFailed) &&
		(strings.Contains(line, "no space left") || strings.Contains(line, "not enough space on the disk")) // Windows
}

// resume reopens the streams once there is space. After a failed write, the server keeps the error and writes
// nothing more to the stream until it is reopened.
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

// reopen closes and opens all streams. Clients stay connected; their requests in between fail.
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
