package events

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"waybill.dev/services/api/internal/kernel/accept"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store/pipeline"
)

func (h *handlers) publish(c *web.Call) error {
	key, body := c.IdempotencyKey(), c.Body(maxBody)
	if err := c.Check(); err != nil {
		return err
	}
	published, batch, faults, err := envelope.DecodeAny(c.Context(), body)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		h.rejected.Add(float64(max(len(published), 1)))
		return accept.Refuse(faults)
	}
	if err := c.ChargeBatch(len(published)); err != nil {
		return err
	}
	submission := pipeline.Submission{Account: c.Principal.Account, Events: make([]domain.Event, len(published))}
	now := time.Now()
	for i, e := range published {
		if submission.Events[i], err = accept.NewEvent(c.Principal.Account, e, now); err != nil {
			return err
		}
	}
	if key != "" {
		done, err := c.Turn(key)
		if err != nil {
			return err
		}
		defer done()
		submission.Once = &pipeline.Once{Path: Path, Key: key, BodyHash: c.BodyHash(), Respond: answer}
	}
	receipt, err := h.submit(c, submission, batch)
	var busy *accept.BusyError
	switch {
	case errors.As(err, &busy):
		p := web.Unavailable("More events wait than the store takes in time. Try again, with the same ids.")
		p.RetryAfter = max(busy.Wait, time.Second)
		return p
	case err != nil:
		return web.KeyReused(err)
	case receipt.Replay != nil:
		return c.Send(receipt.Replay.Status, receipt.Replay.Body)
	}
	return c.Send(answer(receipt.Events))
}

// answer is the answer to a publisher. Ids need no escaping in JSON.
func answer(events []pipeline.AcceptedEvent) (status int, body []byte) {
	body = make([]byte, 0, 16+72*len(events))
	body = append(body, `{"events":[`...)
	for i, e := range events {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"id":"`...)
		body = append(body, e.ID...)
		body = append(body, `","duplicate":`...)
		body = strconv.AppendBool(body, e.Duplicate)
		body = append(body, '}')
	}
	return http.StatusAccepted, append(body, "]}"...)
}

// submit submits the events for acceptance. They carry the trace: a span of our own below the
// caller's, or the caller's own when tracing is off.
func (h *handlers) submit(c *web.Call, submission pipeline.Submission, batch bool) (pipeline.Receipt, error) {
	header := propagation.HeaderCarrier(c.Request.Header)
	if h.untraced && header.Get(traceParent) == "" {
		return h.accepter.Submit(c.Context(), submission, "")
	}
	propagator := propagation.TraceContext{}
	ctx := propagator.Extract(c.Context(), header)
	ctx, span := h.tracer.Start(ctx, "publish", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.Int("waybill.events", len(submission.Events)), attribute.Bool("waybill.batch", batch)))
	defer span.End()
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	receipt, err := h.accepter.Submit(ctx, submission, carrier.Get(traceParent))
	if err != nil {
		span.SetStatus(codes.Error, "not accepted")
	}
	return receipt, err
}

// traceParent is the header with the ids of a trace and a span (W3C Trace Context).
const traceParent = "traceparent"
