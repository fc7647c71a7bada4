package look

import (
	"bytes"
	"compress/gzip"
	"sync"
)

// Zipper compresses. It keeps its working memory, which is over a megabyte, for the next time. It is safe for
// concurrent use, and its zero value is ready.
type Zipper struct{ writers sync.Pool }

// Zip compresses a body in memory, which can't fail.
func (z *Zipper) Zip(body []byte) []byte {
	var b bytes.Buffer
	w, ok := z.writers.Get().(*gzip.Writer)
	if ok {
		w.Reset(&b)
	} else {
		w = gzip.NewWriter(&b)
	}
	_, _ = w.Write(body)
	_ = w.Close()
	z.writers.Put(w)
	return b.Bytes()
}
