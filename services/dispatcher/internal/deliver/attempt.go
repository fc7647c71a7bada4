package deliver

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/domain"
)

// Poster sends one POST and reads its answer within the webhook's timeout. No answer of a receiver
// can harm it.
type Poster interface {
	Post(ctx context.Context, request *Request) Response
}

// Request is one callback.
type Request struct {
	Config    *index.Config
	Body      []byte
	ID        string // webhook-id
	At        time.Time
	Delivery  domain.DeliveryID
	Attempt   int
	UserAgent string
	// TraceParent is the traceparent header of the callback; empty: the callback has none.
	TraceParent string
	// Sequence is the number of the delivery among those of its webhook and shipment; 0: no number is
	// sent. Gap: the delivery before this one did not arrive. Replayed: the delivery is sent out of order.
	Sequence      int64
	Gap, Replayed bool
	// WrongSecret: the callback is signed with keys that the receiver can't know.
	WrongSecret bool
}

// Response is the result of a callback.
type Response struct {
	Status     int // 0: no answer that counts
	Class      domain.Class
	Failure    string   // bounded code when Status is 0: timeout, dns, connect, tls …
	Error      string   // Failure as a text for readers of the log, safe to show
	Transcript []byte   // see domain.Attempt
	RetryAfter []string // values of the Retry-After header
	Body       string   // at most 4 KiB, clean text
	// CertificateExpires is when the receiver's certificate ends; zero: the receiver has no
	// certificate, or was not reached.
	CertificateExpires time.Time
}

// result is how an attempt ended.
type result int

const (
	resultOK result = iota
	resultFailed
	resultNone // no attempt was made, or the attempt says nothing about the receiver
)

// send makes one attempt and emits its outcome.
func (d *Deliverer) send(ep *endpoint, job *Job) result {
	task := job.Task
	if d.endUnattempted(ep.hook, job, d.options.AskCancelled) {
		return resultNone
	}
	config := ep.hook.Config()
	number := task.Attempts + 1
	ctx, traceParent, end := d.trace(context.Background(), task, number)
	started := time.Now()
	made := &domain.Attempt{ID: domain.AttemptID(), Number: number, StartedAt: started.UTC()}
	at := started
	if task.Forge == domain.ForgeOldTime {
		at = at.Add(-domain.ForgedAge)
	}
	response := d.options.Poster.Post(ctx, &Request{
		Config: config, Body: task.Body, ID: task.EventID, At: at, Delivery: task.Delivery,
		Attempt: number, UserAgent: d.options.UserAgent, TraceParent: traceParent,
		Sequence: task.Sequence, Gap: task.Gap, Replayed: replayed(config, task),
		WrongSecret: task.Forge == domain.ForgeWrongSecret,
	})
	now := time.Now()
	made.Duration = now.Sub(started)
	made.Status, made.Class = response.Status, response.Class
	made.Error, made.ResponseBody, made.Transcript = response.Error, response.Body, response.Transcript
	end(response)
	d.metrics.countAttempt(response, made.Duration)

	schedule := config.Schedule(d.options.Schedule)
	decided := decide(attemptAnswer{response.Status, response.Failure, response.RetryAfter}, task.RunAttempts+1, schedule, now, randomUnit)
	if why, ends := ep.hook.Config().Ends(task.ReceivedAt, task.Request != ""); ends && decided.change == domain.ChangeFailed {
		decided = decision{change: why} // there is no other attempt
	}
	if task.Forge != "" && decided.change != domain.ChangeDelivered {
		decided = decision{change: task.Forge.Refused()}
	}
	if decided.change == domain.ChangeDelivered && task.Attempts == 0 {
		d.metrics.endToEnd.Observe(now.Sub(task.ReceivedAt).Seconds())
	}
	if d.options.Watch != nil {
		d.options.Watch(MadeAttempt{ep.hook.ID, config.URL, task.EventID, task.EventType, *made, decided.change.To(), decided.wait})
	}
	if task.Forge != "" {
		d.conclude(job, made, decided, now)
		if job.Probe {
			d.DropProbe(ep.hook)
		}
		return resultNone
	}
	d.noteHealth(ep, config, decided, started, now)
	d.noteCertificate(ep.hook, config, response.CertificateExpires, now)
	if decided.change != domain.ChangeDelivered {
		ep.keepAnswer(made)
	}
	d.conclude(job, made, decided, now)
	if decided.change == domain.ChangeDelivered {
		return resultOK
	}
	return resultFailed
}

// replayed reports whether a delivery of an ordered webhook was asked for again. Such a delivery does not wait for its
// place in the order.
func replayed(config *index.Config, task *domain.Task) bool {
	return config.Ordering == domain.OrderingShipment && task.Sequence == 0 && !task.Test && task.Rev >= domain.RunStep
}

// trace starts a span for the attempt when traces are on. The callback carries the context of that span, or without
// traces the context that came with the event.
func (d *Deliverer) trace(ctx context.Context, task *domain.Task, number int) (context.Context, string, func(Response)) {
	if d.options.Tracer == nil && task.TraceParent == "" {
		return ctx, "", func(Response) {}
	}
	propagator := propagation.TraceContext{}
	ctx = propagator.Extract(ctx, propagation.MapCarrier{"traceparent": task.TraceParent})
	end := func(Response) {}
	if d.options.Tracer != nil {
		var span trace.Span
		ctx, span = d.options.Tracer.Start(
			ctx, "deliver", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
				attribute.String("waybill.event.type", string(task.EventType)), attribute.Int("waybill.attempt", number)))
		end = func(r Response) { endSpan(span, r) }
	}
	out := propagation.MapCarrier{}
	propagator.Inject(ctx, out)
	return ctx, out["traceparent"], end
}

func endSpan(span trace.Span, r Response) {
	if r.Status > 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", r.Status))
	}
	if r.Status < 200 || r.Status > 299 {
		span.SetStatus(codes.Error, r.Failure)
	}
	span.End()
}

// noteHealth notes since when all attempts to the receiver have failed. It disables the webhook if
// the receiver is gone or has failed for too long.
func (d *Deliverer) noteHealth(ep *endpoint, config *index.Config, decided decision, started, now time.Time) {
	health := ep.hook.Health()
	if decided.change == domain.ChangeDelivered {
		if !health.FailingSince.IsZero() {
			ep.hook.SetFailing(time.Time{})
			d.emitHealth(domain.HealthChange{Webhook: ep.hook.ID, Recovered: true, At: now.UTC()})
		}
		return
	}
	if health.FailingSince.IsZero() || health.FailingSince.Before(config.ActivatedAt) {
		// Failures from before the owner activated the webhook again no longer count.
		health.FailingSince = started.UTC()
		ep.hook.SetFailing(health.FailingSince)
		d.emitHealth(domain.HealthChange{Webhook: ep.hook.ID, FailingSince: health.FailingSince, At: now.UTC()})
	}
	switch {
	case decided.change == domain.ChangeGone:
		d.disable(ep, config, domain.DisabledGone, now)
	case now.Sub(health.FailingSince) >= d.options.DisableAfter:
		d.disable(ep, config, domain.DisabledFailing, now)
	}
}

func (d *Deliverer) disable(ep *endpoint, config *index.Config, reason domain.DisabledReason, now time.Time) {
	if ep.hook.Inactive() {
		return
	}
	change := domain.HealthChange{Webhook: ep.hook.ID, DisabledVersion: config.Version, DisabledReason: reason, At: now.UTC()}
	d.options.Hooks.Disable(ep.hook, change)
	d.emitHealth(change)
	d.metrics.disabled.WithLabelValues(string(reason)).Inc()
	d.options.Logger.Warn("a webhook became inactive", "webhook", ep.hook.ID, "reason", reason)
}

// noteCertificate reports a receiver's certificate that ends soon, and the certificate that replaces it, once each. It
// does not report other certificates.
func (d *Deliverer) noteCertificate(hook *index.Hook, config *index.Config, expires, now time.Time) {
	if expires.IsZero() {
		return
	}
	seen := domain.Certificate{Version: config.Version}
	if !expires.After(now.Add(domain.ExpirySoon)) {
		seen.ExpiresAt = expires.UTC()
	}
	if hook.SeeCertificate(seen, config.URLVersion, now) {
		d.emitHealth(domain.HealthChange{Webhook: hook.ID, Certificate: &seen, At: now.UTC()})
	}
}

func (d *Deliverer) emitHealth(change domain.HealthChange) {
	d.options.Emitter.Emit(record.Item{Health: &change})
}
