package egress

import (
	"bytes"
	"io"
)

// unsolicited begins the line that net/http's transport prints through the standard
// logger, with the bytes, when a receiver sends something that was not asked for.
const unsolicited = "Unsolicited response received on idle HTTP channel"

// LogWriter returns a writer for log.SetOutput that passes lines on to next, that one
// without what the receiver sent. The transport has no other way to be kept quiet.
func LogWriter(next io.Writer) io.Writer { return logWriter{next} }

type logWriter struct{ next io.Writer }

func (w logWriter) Write(line []byte) (int, error) {
	if before, _, ok := bytes.Cut(line, []byte(unsolicited)); ok {
		short := append(bytes.Clone(before), "a receiver sent bytes beyond its answer: connection closed\n"...)
		if _, err := w.next.Write(short); err != nil {
			return 0, err
		}
		return len(line), nil
	}
	return w.next.Write(line)
}
