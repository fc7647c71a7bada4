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

// wholeBytes is up to which size an answer is read whole before it is passed on: if it breaks off,
// it is answered with 502 instead of being cut.
const wholeBytes = 64 << 10

// isPassedOn reports whether an answer is passed on as it arrives.
func isPassedOn(r *route.Request, answer *http.Response) bool {
	return r.Streams && r.Method != http.MethodHead && (answer.ContentLength < 0 || answer.ContentLength > wholeBytes)
}

// passing is the body of an answer that is passed on as it arrives, however long it is. The back
// end gets the full time of the call for each part of the body. The clock stands still while the
// client takes a part.
type passing struct {
	body  io.ReadCloser
	ctx   context.Context //nolint:containedctx // of the request to the back end
	end   context.CancelCauseFunc
	clock *clock
}

// Read implements io.Reader. Its errors other than io.EOF are logged as the reason why an answer
// was cut.
func (p *passing) Read(buffer []byte) (int, error) {
	p.clock.renew()
	p.clock.release()
	n, err := p.body.Read(buffer)
	p.clock.hold()
	if err != nil && !errors.Is(err, io.EOF) {
		return n, callerError(p.ctx, egress.AsError(p.ctx, err))
	}
	return n, err
}

// Close ends the request to the back end.
func (p *passing) Close() error {
	err := p.body.Close()
	p.end(context.Canceled)
	return err
}

// sending is the body of a request that is passed on as it arrives. The clock of the call stands
// still while the gateway waits for the client.
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
