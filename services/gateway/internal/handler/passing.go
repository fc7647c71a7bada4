package handler

import (
	"context"
	"errors"
	"io"
	"net/http"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/body"
	"waybill.dev/shared/egress"
)

// wholeBytes is up to which size an answer is read before any of it is passed on: one that
// breaks off is then answered with 502, and not cut.
const wholeBytes = 64 << 10

// passes reports whether an answer is to be passed on as it comes.
func passes(r *route.Request, answer *http.Response) bool {
	return r.Streams && r.Method != http.MethodHead && (answer.ContentLength < 0 || answer.ContentLength > wholeBytes)
}

// passing is the body of an answer that is passed on as it comes, however long it is. The back
// end has the time of the call anew for each part of it. While the client takes what has come,
// that time stands still.
type passing struct {
	body  io.ReadCloser
	ctx   context.Context //nolint:containedctx // of the request to the back end
	end   context.CancelCauseFunc
	clock *clock
}

// Read implements io.Reader. Its errors but io.EOF are what is logged of an answer that is
// cut.
func (p *passing) Read(buffer []byte) (int, error) {
	p.clock.renew()
	p.clock.release()
	n, err := p.body.Read(buffer)
	p.clock.hold()
	if err != nil && !errors.Is(err, io.EOF) {
		return n, failure(p.ctx, egress.AsError(p.ctx, err))
	}
	return n, err
}

// Close lets go of the back end.
func (p *passing) Close() error {
	err := p.body.Close()
	p.end(context.Canceled)
	return err
}

// sending is the body of a request that is passed on as it comes. The time of the call
// stands still while the client is waited for.
type sending struct {
	*body.Stream

	clock *clock
}

// Read implements io.Reader.
func (s *sending) Read(buffer []byte) (int, error) {
	s.clock.hold()
	defer s.clock.release()
	return s.Stream.Read(buffer)
}
