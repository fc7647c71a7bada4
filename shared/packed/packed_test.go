package packed_test

import (
	"testing"
	"time"

	"waybill.dev/shared/packed"
)

var at = time.Date(2026, 11, 16, 13, 4, 11, 123_456_789, time.UTC)

// written is one value of each kind.
func written() []byte {
	out := packed.AppendText([]byte{7}, "Straße", "")
	out = packed.AppendBlob(out, []byte{1, 2})
	out = packed.AppendNumbers(out, -5, 1<<40)
	out = packed.AppendCounts(out, 1<<63, 2)
	return packed.AppendTime(packed.AppendTime(out, at), time.Time{})
}

// read reads what written wrote, and reports what differs.
func read(t *testing.T, raw []byte) packed.Reader {
	t.Helper()
	r := packed.NewReader(raw)
	ok := r.Byte() == 7
	first, second := r.Text(), r.Text()
	ok = first == "Straße" && second == "" && ok
	ok = string(r.Blob()) == "\x01\x02" && ok
	ok = r.Int() == -5 && r.Number() == 1<<40 && ok
	ok = r.Count() == 1<<63 && r.Length(8) == 2 && ok
	ok = r.Time().Equal(at) && r.Time().IsZero() && ok
	if !ok && !r.Failed() {
		t.Errorf("what was read of %x differs", raw)
	}
	return r
}

func TestValuesComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	if r := read(t, written()); !r.Whole() || r.More() {
		t.Error("not everything was read")
	}
	for n := range written() {
		if r := read(t, written()[:n]); !r.Failed() || r.Whole() || r.More() {
			t.Errorf("nothing is missing in the first %d bytes", n)
		}
	}
	if r := read(t, append(written(), 0)); r.Failed() || r.Whole() || !r.More() {
		t.Error("there is no more after the last value")
	}
}

func TestWhatPromisesTooMuchIsMissing(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*packed.Reader){
		"a number of more than 32 bits": func(r *packed.Reader) { r.Int() },
		"a list longer than the rest":   func(r *packed.Reader) { r.Length(2) },
		"a text longer than the rest":   func(r *packed.Reader) { r.Text() },
	} {
		r := packed.NewReader(packed.AppendCounts(nil, 1<<40))
		read(&r)
		if !r.Failed() {
			t.Errorf("%s was read", name)
		}
	}
}
