package tunnel_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"waybill.dev/services/gateway/internal/tunnel"
	"waybill.dev/shared/jsonscan/attack"
)

// sent is a connection with what an agent has sent, which comes some bytes at a time.
type sent struct {
	net.Conn

	bytes *bytes.Reader
	size  int
}

func (s *sent) Read(p []byte) (int, error) { return s.bytes.Read(p[:min(len(p), s.size)]) }

// Whatever an agent sends, in whatever pieces, it passes as it is, up to the frame that is one too many.
func FuzzFrames(f *testing.F) {
	ping, headers := "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678", "\x00\x00\x02\x01\x04\x00\x00\x00\x01ab"
	f.Add([]byte(ping), uint16(1001), uint8(7))
	f.Add([]byte(headers+"\x00\x00\x03\x00\x01\x00\x00\x00\x01abc"), uint16(9000), uint8(255))
	f.Add([]byte("\x00\x00\x00\x04\x01\x00\x00\x00\x00"+headers), uint16(10_001), uint8(64))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01"), uint16(20_001), uint8(200))
	f.Add([]byte("\xff\xff\xff\x06"), uint16(1), uint8(1))
	f.Fuzz(func(t *testing.T, frames []byte, times uint16, size uint8) {
		if len(frames)*int(times) > 1<<20 {
			return
		}
		stream := bytes.Repeat(frames, int(times))
		attack.Hold(t, len(stream), attack.Allowance{CPU: 3}, func() {
			read, err := io.ReadAll(tunnel.Watch(&sent{bytes: bytes.NewReader(stream), size: int(size) + 1}))
			if !bytes.HasPrefix(stream, read) {
				t.Fatal("what is read is not what was sent")
			}
			switch end := tooMany(stream); {
			case end < 0 && (err != nil || len(read) != len(stream)):
				t.Fatalf("%d of %d bytes pass: %v", len(read), len(stream), err)
			case end >= 0 && (err == nil || !strings.Contains(err.Error(), "too many frames") || len(read) < end || len(read) > end+int(size)):
				t.Fatalf("%d bytes pass, and too many are %d: %v", len(read), end, err)
			}
		})
	})
}

// tooMany returns where the header of the first frame ends that is one too many; -1: none is.
func tooMany(stream []byte) int {
	control, answered := 0, 0
	for at := 0; at+9 <= len(stream); {
		length, kind, flags := int(stream[at])<<16|int(stream[at+1])<<8|int(stream[at+2]), stream[at+3], stream[at+4]
		at += 9
		if kind == 8 || kind == 0 && length > 0 { // windows, and data with content
			at += length
			continue
		}
		control++
		if (kind == 4 || kind == 6) && flags&1 == 0 { // settings and pings that ask for an answer
			answered++
		}
		if control > 20_000 || answered > 1_000 {
			return at
		}
		at += length
	}
	return -1
}
