package metering

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/metering"
)

// Feature is a feature as callers see it.
type Feature struct {
	ID         string            `json:"id"`
	Key        string            `json:"key"`
	Name       string            `json:"name"`
	MeterSlug  string            `json:"meterSlug,omitzero"`
	Filters    map[string]string `json:"meterGroupByFilters,omitzero"`
	Metadata   map[string]string `json:"metadata,omitzero"`
	CreatedAt  *string           `json:"createdAt"`
	UpdatedAt  *string           `json:"updatedAt"`
	ArchivedAt *string           `json:"archivedAt,omitzero"`
}

func viewFeature(f domain.Feature) Feature {
	return Feature{f.ID, f.Key, f.Name, f.MeterSlug, f.Filters, f.Metadata, web.Stamp(f.CreatedOn), web.Stamp(f.UpdatedOn), web.Stamp(f.ArchivedOn)}
}

func (h *handlers) listFeatures(c *web.Call) error {
	bucket, page := bucketOf(c), c.Page()
	archived, _ := c.Query().Bool("includeArchived")
	f := metering.FeatureFilter{MeterSlug: c.Query().Within("meterSlug", 64), Archived: archived, Page: page}
	if err := c.Check(); err != nil {
		return err
	}
	list, total, err := h.Features.ListFeatures(c.Context(), bucket, f)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, list, viewFeature)
}

func (h *handlers) createFeature(c *web.Call) error {
	bucket := bucketOf(c)
	f := readFeature(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	made, err := h.Features.CreateFeature(c.Context(), bucket, f)
	switch {
	case errors.Is(err, metering.ErrNoMeter):
		return problem.Invalid(problem.Fault{Pointer: "/meterSlug", Detail: "must be the slug of a meter of the bucket"})
	case errors.Is(err, metering.ErrGroup):
		return problem.Invalid(problem.Fault{Pointer: "/meterGroupByFilters", Detail: "must name groups of the meter"})
	case errors.Is(err, domain.ErrLimit):
		return web.Conflict("The bucket has 100 features. It can't have more.")
	case err != nil:
		return web.Taken(err, "The bucket has a feature of this key already.")
	}
	h.Changed()
	return c.Created(pathIn(bucket, "features", made.ID), viewFeature(made))
}

func (h *handlers) getFeature(c *web.Call) error {
	bucket, err := simple(c)
	if err != nil {
		return err
	}
	f, err := h.Features.GetFeature(c.Context(), bucket, c.Param("featureId"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, viewFeature(f))
}

func (h *handlers) archiveFeature(c *web.Call) error {
	bucket, err := simple(c)
	if err != nil {
		return err
	}
	if err := h.Features.ArchiveFeature(c.Context(), bucket, c.Param("featureId")); err != nil {
		return err
	}
	h.Changed()
	return c.NoContent()
}

// Plan is a version of a plan as callers see it.
type Plan struct {
	ID             string            `json:"id"`
	Key            string            `json:"key"`
	Version        int               `json:"version"`
	Name           string            `json:"name"`
	Description    string            `json:"description,omitzero"`
	Metadata       map[string]string `json:"metadata,omitzero"`
	Currency       string            `json:"currency"`
	BillingCadence domain.Cadence    `json:"billingCadence"`
	Status         domain.PlanStatus `json:"status"`
	EffectiveFrom  *string           `json:"effectiveFrom,omitzero"`
	EffectiveTo    *string           `json:"effectiveTo,omitzero"`
	Alignment      jsontext.Value    `json:"alignment,omitzero"`
	ProRating      jsontext.Value    `json:"proRatingConfig,omitzero"`
	Phases         jsontext.Value    `json:"phases"`
	CreatedAt      *string           `json:"createdAt"`
	UpdatedAt      *string           `json:"updatedAt"`
}

func viewPlan(p domain.Plan) Plan {
	phases, err := json.Marshal(p.Phases)
	if err != nil {
		phases = []byte("[]") // can't fail: they were read from JSON
	}
	return Plan{
		p.ID, p.Key, p.Version, p.Name, p.Description, p.Metadata, p.Currency, p.BillingCadence, p.Status,
		web.Stamp(p.EffectiveFrom), web.Stamp(p.EffectiveTo), jsontext.Value(p.Alignment), jsontext.Value(p.ProRating), phases,
		web.Stamp(p.CreatedOn), web.Stamp(p.UpdatedOn),
	}
}

func (h *handlers) listPlans(c *web.Call) error {
	bucket, page := bucketOf(c), c.Page()
	f := metering.PlanFilter{Key: c.Query().Within("key", 64), Status: input.OneOf(c.Query(), "status", domain.PlanStatuses()), Page: page}
	if err := c.Check(); err != nil {
		return err
	}
	list, total, err := h.Plans.ListPlans(c.Context(), bucket, f)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, list, viewPlan)
}

// planFault turns an error into the fault of a plan.
func planFault(err error) error {
	var feature *metering.FeatureError
	switch {
	case errors.As(err, &feature):
		at := input.Pointer("phases", strconv.Itoa(feature.Phase), "rateCards", strconv.Itoa(feature.Card), "featureKey")
		detail := "must be the key of a feature with a meter"
		if feature.Missing {
			detail = "must be the key of a live feature of the bucket"
		}
		return problem.Invalid(problem.Fault{Pointer: at, Detail: detail})
	case errors.Is(err, domain.ErrLimit):
		return web.Conflict("The bucket has 1000 plans. It can't have more.")
	case errors.Is(err, metering.ErrNotDraft):
		return web.Conflict("The plan is no draft. Make a new version of it.")
	case errors.Is(err, metering.ErrNotActive):
		return web.Conflict("The plan is not active.")
	}
	return err
}

func (h *handlers) createPlan(c *web.Call) error {
	bucket := bucketOf(c)
	p := readPlan(c.Form(), true)
	if err := c.Check(); err != nil {
		return err
	}
	made, err := h.Plans.CreatePlan(c.Context(), bucket, p)
	if err != nil {
		return planFault(err)
	}
	h.Changed()
	return c.Created(pathIn(bucket, "plans", made.ID), viewPlan(made))
}

func (h *handlers) getPlan(c *web.Call) error {
	bucket, err := simple(c)
	if err != nil {
		return err
	}
	p, err := h.Plans.GetPlan(c.Context(), bucket, c.Param("planId"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, viewPlan(p))
}

func (h *handlers) updatePlan(c *web.Call) error {
	bucket := bucketOf(c)
	p := readPlan(c.Form(), false)
	if err := c.Check(); err != nil {
		return err
	}
	return h.answerPlan(c)(h.Plans.UpdatePlan(c.Context(), bucket, c.Param("planId"), p))
}

func (h *handlers) answerPlan(c *web.Call) func(domain.Plan, error) error {
	return func(p domain.Plan, err error) error {
		if err != nil {
			return planFault(err)
		}
		h.Changed()
		return c.Answer(http.StatusOK, viewPlan(p))
	}
}

func (h *handlers) publishPlan(c *web.Call) error {
	bucket, err := simple(c)
	if err != nil {
		return err
	}
	p, err := h.Plans.PublishPlan(c.Context(), bucket, c.Param("planId"))
	if _, ok := errors.AsType[*metering.FeatureError](err); ok {
		return web.Conflict("A feature of the plan is archived by now, or has no meter.")
	}
	return h.answerPlan(c)(p, err)
}

func (h *handlers) archivePlan(c *web.Call) error {
	bucket, err := simple(c)
	if err != nil {
		return err
	}
	return h.answerPlan(c)(h.Plans.ArchivePlan(c.Context(), bucket, c.Param("planId")))
}

func (h *handlers) deletePlan(c *web.Call) error {
	bucket, err := simple(c)
	if err != nil {
		return err
	}
	if err := h.Plans.DeletePlan(c.Context(), bucket, c.Param("planId")); err != nil {
		return planFault(err)
	}
	h.Changed()
	return c.NoContent()
}

// Subscription is the plan that a consumer has.
type Subscription struct {
	Consumer    string  `json:"consumer"`
	CustomerID  string  `json:"customerId"`
	PlanID      string  `json:"planId"`
	PlanKey     string  `json:"planKey"`
	PlanVersion int     `json:"version"`
	Phase       string  `json:"phase"`
	AnchorAt    *string `json:"anchorAt"`
	ActiveFrom  *string `json:"activeFrom"`
	CreatedAt   *string `json:"createdAt"`
	UpdatedAt   *string `json:"updatedAt"`
}

func viewSubscription(e *metering.Entitlements) Subscription {
	phase := ""
	if p := e.Plan.Phase(e.Since, time.Now()); p != nil {
		phase = p.Key
	}
	return Subscription{
		e.Consumer, e.ConsumerID, e.Plan.ID, e.Plan.Key, e.Plan.Version, phase,
		web.Stamp(e.Anchor), web.Stamp(e.Since), web.Stamp(e.CreatedOn), web.Stamp(e.UpdatedOn),
	}
}

// consumerKey returns the consumer that the path names.
func consumerKey(c *web.Call) metering.ConsumerKey {
	key := metering.ConsumerKey{BucketKey: bucketOf(c), Consumer: c.Param("consumerName")}
	return key
}

func (h *handlers) getSubscription(c *web.Call) error {
	key := consumerKey(c)
	if err := c.Check(); err != nil {
		return err
	}
	e, err := h.Subscriptions.GetSubscription(c.Context(), key)
	if err != nil {
		return unsubscribed(err)
	}
	return c.Answer(http.StatusOK, viewSubscription(e))
}

func (h *handlers) setSubscription(c *web.Call) error {
	key, f := consumerKey(c), c.Form()
	f.Require("planKey")
	plan := slug(f, "planKey")
	version, _ := f.Integer("version", 1, domain.MaxPlans)
	if err := c.Check(); err != nil {
		return err
	}
	e, err := h.Subscriptions.PutSubscription(c.Context(), key, plan, version)
	switch {
	case errors.Is(err, metering.ErrNoPlan):
		return problem.New(problem.NotFound, "There is no such plan.")
	case errors.Is(err, metering.ErrNotActive):
		return web.Conflict("The plan is a draft, or archived.")
	case err != nil:
		return err
	}
	h.Changed()
	h.Resumed()
	return c.Answer(http.StatusOK, viewSubscription(e))
}

func (h *handlers) deleteSubscription(c *web.Call) error {
	key := consumerKey(c)
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.Subscriptions.DeleteSubscription(c.Context(), key); err != nil {
		return unsubscribed(err)
	}
	h.Changed()
	h.Resumed()
	return c.NoContent()
}

// unsubscribed turns the error of a missing subscription into the problem that names it.
func unsubscribed(err error) error {
	if errors.Is(err, domain.ErrNotFound) {
		return problem.New(problem.NotFound, "There is no such consumer, or it has no subscription.")
	}
	return err
}

// Access has the entitlements of a consumer, by features.
type Access struct {
	Entitlements map[string]Entitlement `json:"entitlements"`
}

// Entitlement has the numbers of features with a meter alone.
type Entitlement struct {
	HasAccess bool           `json:"hasAccess"`
	Balance   *int64         `json:"balance,omitzero"`
	Usage     *int64         `json:"usage,omitzero"`
	Overage   *int64         `json:"overage,omitzero"`
	ResetAt   *string        `json:"resetAt,omitzero"`
	Config    jsontext.Value `json:"config,omitzero"`
}

func viewUsage(u *domain.Usage) Entitlement {
	e := &u.Grant.Entitlement
	v := Entitlement{HasAccess: true, Config: jsontext.Value(e.Config)}
	if u.Grant.Meter == nil || e.Type != domain.EntitlementMetered {
		return v
	}
	balance, overage := max(e.IssueAfterReset-u.Used, 0), max(u.Used-e.IssueAfterReset, 0)
	v.HasAccess = e.IsSoftLimit || balance > 0
	v.Balance, v.Usage, v.Overage, v.ResetAt = &balance, &u.Used, &overage, web.Stamp(u.End)
	return v
}

func (h *handlers) access(c *web.Call) error {
	key := consumerKey(c)
	if err := c.Check(); err != nil {
		return err
	}
	list, err := h.Subscriptions.Usages(c.Context(), key)
	if err != nil && !errors.Is(err, metering.ErrNoSubscription) {
		return err
	}
	v := Access{make(map[string]Entitlement, len(list))}
	for i := range list {
		v.Entitlements[list[i].Grant.FeatureKey] = viewUsage(&list[i])
	}
	return c.Answer(http.StatusOK, v)
}
