package metering

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/metering"
)

// Meter is a meter as callers see it.
type Meter struct {
	ID            string             `json:"id"`
	Slug          string             `json:"slug"`
	Name          string             `json:"name"`
	Description   string             `json:"description,omitzero"`
	Metadata      map[string]string  `json:"metadata,omitzero"`
	Aggregation   domain.Aggregation `json:"aggregation"`
	EventType     string             `json:"eventType"`
	EventFrom     *string            `json:"eventFrom,omitzero"`
	ValueProperty string             `json:"valueProperty,omitzero"`
	GroupBy       map[string]string  `json:"groupBy,omitzero"`
	CreatedAt     *string            `json:"createdAt"`
	UpdatedAt     *string            `json:"updatedAt"`
}

func viewMeter(m domain.Meter) Meter {
	return Meter{
		m.ID, m.Slug, m.Name, m.Description, m.Metadata, m.Aggregation, m.EventType, web.Stamp(m.EventFrom), m.ValueProperty, m.GroupBy,
		web.Stamp(m.CreatedOn), web.Stamp(m.UpdatedOn),
	}
}

func (h *handlers) listMeters(c *web.Call) error {
	bucket, page := bucketOf(c), c.Page()
	if err := c.Check(); err != nil {
		return err
	}
	list, total, err := h.Meters.ListMeters(c.Context(), bucket, page)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, list, viewMeter)
}

func (h *handlers) createMeter(c *web.Call) error {
	bucket := bucketOf(c)
	m := readMeter(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	m.Bucket = bucket
	made, err := h.Meters.CreateMeter(c.Context(), m)
	if errors.Is(err, domain.ErrLimit) {
		return web.Conflict("The bucket has 100 meters. It can't have more.")
	}
	if err != nil {
		return web.Taken(err, "The bucket has a meter of this slug already.")
	}
	h.Changed()
	return c.Created(pathIn(bucket, "meters", made.ID), viewMeter(made))
}

func (h *handlers) getMeter(c *web.Call) error {
	bucket, err := simple(c)
	if err != nil {
		return err
	}
	m, err := h.Meters.GetMeter(c.Context(), bucket, c.Param("meterIdOrSlug"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, viewMeter(m))
}

func (h *handlers) updateMeter(c *web.Call) error {
	bucket := bucketOf(c)
	f := c.Form()
	name, description, metadata := texts(f)
	groupBy := groups(f)
	if err := c.Check(); err != nil {
		return err
	}
	m, err := h.Meters.UpdateMeter(c.Context(), bucket, c.Param("meterIdOrSlug"), func(m *domain.Meter) {
		m.Name, m.Description, m.Metadata, m.GroupBy = name, description, metadata, groupBy
		if name == "" {
			m.Name = m.Slug
		}
	})
	if errors.Is(err, metering.ErrInUse) {
		return web.Conflict("A feature filters by a group that the meter would not have any more.")
	}
	if err != nil {
		return err
	}
	h.Changed()
	return c.Answer(http.StatusOK, viewMeter(m))
}

func (h *handlers) deleteMeter(c *web.Call) error {
	bucket, err := simple(c)
	if err != nil {
		return err
	}
	err = h.Meters.DeleteMeter(c.Context(), bucket, c.Param("meterIdOrSlug"))
	if errors.Is(err, metering.ErrInUse) {
		return web.Conflict("A feature uses the meter. Archive the feature first.")
	}
	if err != nil {
		return err
	}
	h.Changed()
	return c.NoContent()
}

// Bounds of queries.
const (
	maxAsked  = 100
	maxClient = 36
)

// Query is the usage of a meter.
type Query struct {
	From       *string         `json:"from"`
	To         *string         `json:"to"`
	WindowSize metering.Window `json:"windowSize,omitzero"`
	Data       []Value         `json:"data"`
}

// Value is the usage in a window of time.
type Value struct {
	Value       int64             `json:"value"`
	WindowStart *string           `json:"windowStart"`
	WindowEnd   *string           `json:"windowEnd"`
	Subject     *string           `json:"subject"`
	CustomerID  *string           `json:"customerId"`
	GroupBy     map[string]string `json:"groupBy"`
}

func (h *handlers) query(c *web.Call) error {
	bucket, q := bucketOf(c), c.Query()
	ask := metering.MeterQuery{
		From: hourIn(q, "from"), To: hourIn(q, "to"), Window: input.OneOf(q, "windowSize", metering.Windows()),
		Subjects: q.Texts("subject", maxAsked, 128), Customers: q.Texts("filterCustomerId", maxAsked, 128), Groups: q.Texts("groupBy", maxGroups, 64),
	}
	q.Within("clientId", maxClient) // checked and ignored
	if zone := q.Within("windowTimeZone", 64); zone != "" && zone != "UTC" {
		q.Fault("windowTimeZone", "must be UTC")
	}
	if err := c.Check(); err != nil {
		return err
	}
	return h.answerQuery(c, bucket, &ask)
}

func hourIn(q *input.Query, name string) time.Time {
	at := q.Time(name)
	if !fullHour(at) {
		q.Fault(name, hourFault)
	}
	return at
}

func (h *handlers) queryBody(c *web.Call) error {
	bucket := bucketOf(c)
	f := c.OptionalForm()
	var ask metering.MeterQuery
	for name, into := range map[string]*time.Time{"from": &ask.From, "to": &ask.To} {
		if at, ok := f.Time(name); ok {
			if *into = at; !fullHour(at) {
				f.Fault(hourFault, name)
			}
		}
	}
	ask.Window, _ = web.ReadChoice(f, "windowSize", metering.Windows())
	ask.Subjects, _ = f.Texts("subject", 0, maxAsked)
	ask.Customers, _ = f.Texts("filterCustomerId", 0, maxAsked)
	ask.Groups, _ = f.Texts("groupBy", 0, maxGroups)
	_, _ = f.Text("clientId", 1, maxClient)
	_, _ = web.ReadChoice(f, "windowTimeZone", []string{"UTC"})
	ask.Filters = filters(f, "filterGroupBy")
	if err := c.Check(); err != nil {
		return err
	}
	return h.answerQuery(c, bucket, &ask)
}

func (h *handlers) answerQuery(c *web.Call, bucket domain.BucketKey, ask *metering.MeterQuery) error {
	values, err := h.Meters.QueryMeter(c.Context(), bucket, c.Param("meterIdOrSlug"), *ask)
	if err := queryFault(err); err != nil {
		return err
	}
	v := Query{web.Stamp(ask.From), web.Stamp(ask.To), ask.Window, web.Views(values, func(v metering.MeterValue) Value {
		return Value{v.Value, web.Stamp(v.Start), web.Stamp(v.End), v.Subject, v.Customer, v.Groups}
	})}
	return c.Answer(http.StatusOK, v)
}

// queryFault turns the store's error about a query into a fault.
func queryFault(err error) error {
	switch {
	case errors.Is(err, metering.ErrQueryGroup):
		return problem.Invalid(problem.Fault{Parameter: "groupBy", Detail: "must name groups of the meter, subject or customer_id"})
	case errors.Is(err, domain.ErrLimit):
		return problem.Invalid(problem.Fault{Parameter: "windowSize", Detail: "would have more than " + strconv.Itoa(metering.MaxMeterValues) + " values: ask for less"})
	}
	return err
}

func (h *handlers) groupValues(c *web.Call) error {
	bucket, q := bucketOf(c), c.Query()
	from, to := hourIn(q, "from"), hourIn(q, "to")
	if err := c.Check(); err != nil {
		return err
	}
	values, err := h.Meters.MeterValues(c.Context(), bucket, c.Param("meterIdOrSlug"), c.Param("groupByKey"), from, to)
	if errors.Is(err, metering.ErrQueryGroup) {
		return domain.ErrNotFound
	}
	if err := queryFault(err); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, values)
}
