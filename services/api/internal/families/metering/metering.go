// Package metering has the operations on meters, features, plans and subscriptions.
package metering

import (
	"context"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/metering"
)

const (
	metersPath       = buckets.Path + "/meters"
	meterPath        = metersPath + "/{meterIdOrSlug}"
	featuresPath     = buckets.Path + "/features"
	featurePath      = featuresPath + "/{featureId}"
	plansPath        = buckets.Path + "/plans"
	planPath         = plansPath + "/{planId}"
	subscriptionPath = buckets.ConsumerPath + "/subscription"
)

// Meters keeps meters and what they have counted.
type Meters interface {
	CreateMeter(ctx context.Context, meter domain.Meter) (domain.Meter, error)
	ListMeters(ctx context.Context, bucket domain.BucketKey, page store.Page) ([]domain.Meter, int, error)
	GetMeter(ctx context.Context, bucket domain.BucketKey, idOrSlug string) (domain.Meter, error)
	UpdateMeter(ctx context.Context, bucket domain.BucketKey, idOrSlug string, change func(*domain.Meter)) (domain.Meter, error)
	DeleteMeter(ctx context.Context, bucket domain.BucketKey, idOrSlug string) error
	QueryMeter(ctx context.Context, bucket domain.BucketKey, idOrSlug string, q metering.MeterQuery) ([]metering.MeterValue, error)
	MeterValues(ctx context.Context, bucket domain.BucketKey, idOrSlug, group string, from, to time.Time) ([]string, error)
}

// Features keeps features.
type Features interface {
	CreateFeature(ctx context.Context, bucket domain.BucketKey, f domain.Feature) (domain.Feature, error)
	ListFeatures(ctx context.Context, bucket domain.BucketKey, f metering.FeatureFilter) ([]domain.Feature, int, error)
	GetFeature(ctx context.Context, bucket domain.BucketKey, id string) (domain.Feature, error)
	ArchiveFeature(ctx context.Context, bucket domain.BucketKey, id string) error
}

// Plans keeps plans.
type Plans interface {
	CreatePlan(ctx context.Context, bucket domain.BucketKey, p domain.Plan) (domain.Plan, error)
	ListPlans(ctx context.Context, bucket domain.BucketKey, f metering.PlanFilter) ([]domain.Plan, int, error)
	GetPlan(ctx context.Context, bucket domain.BucketKey, id string) (domain.Plan, error)
	UpdatePlan(ctx context.Context, bucket domain.BucketKey, id string, p domain.Plan) (domain.Plan, error)
	PublishPlan(ctx context.Context, bucket domain.BucketKey, id string) (domain.Plan, error)
	ArchivePlan(ctx context.Context, bucket domain.BucketKey, id string) (domain.Plan, error)
	DeletePlan(ctx context.Context, bucket domain.BucketKey, id string) error
}

// Subscriptions keeps the plans of consumers.
type Subscriptions interface {
	GetSubscription(ctx context.Context, key metering.ConsumerKey) (*metering.Entitlements, error)
	PutSubscription(ctx context.Context, key metering.ConsumerKey, planKey string, version int) (*metering.Entitlements, error)
	DeleteSubscription(ctx context.Context, key metering.ConsumerKey) error
	Usages(ctx context.Context, key metering.ConsumerKey) ([]domain.Usage, error)
}

// Options of the operations.
type Options struct {
	Meters        Meters
	Features      Features
	Plans         Plans
	Subscriptions Subscriptions
	// Changed notifies gateways of a change, and Resumed dispatchers.
	Changed, Resumed func()
}

type handlers struct{ Options }

// Routes returns the operations.
func Routes(o Options) []web.Route {
	h := &handlers{o}
	read := func(path, operation string, handle func(*web.Call) error) web.Route {
		return web.Route{Method: http.MethodGet, Path: path, Operation: operation, Scope: domain.ScopeMeteringRead, Handle: handle}
	}
	change := func(method, path, operation, action string, handle func(*web.Call) error) web.Route {
		return web.Route{Method: method, Path: path, Operation: operation, Scope: domain.ScopeMeteringWrite, Action: action, Handle: handle}
	}
	query := read(meterPath+"/query", "queryMeterByBody", h.queryBody)
	query.Method = http.MethodPost
	return []web.Route{
		read(metersPath, "listMeters", h.listMeters),
		change(http.MethodPost, metersPath, "createMeter", auditlog.ActionCreateMeter, h.createMeter),
		read(meterPath, "getMeter", h.getMeter),
		change(http.MethodPut, meterPath, "updateMeter", auditlog.ActionUpdateMeter, h.updateMeter),
		change(http.MethodDelete, meterPath, "deleteMeter", auditlog.ActionDeleteMeter, h.deleteMeter),
		read(meterPath+"/query", "queryMeter", h.query),
		query,
		read(meterPath+"/group-by/{groupByKey}/values", "listMeterGroupValues", h.groupValues),

		read(featuresPath, "listFeatures", h.listFeatures),
		change(http.MethodPost, featuresPath, "createFeature", auditlog.ActionCreateFeature, h.createFeature),
		read(featurePath, "getFeature", h.getFeature),
		change(http.MethodDelete, featurePath, "archiveFeature", auditlog.ActionArchiveFeature, h.archiveFeature),

		read(plansPath, "listPlans", h.listPlans),
		change(http.MethodPost, plansPath, "createPlan", auditlog.ActionCreatePlan, h.createPlan),
		read(planPath, "getPlan", h.getPlan),
		change(http.MethodPut, planPath, "updatePlan", auditlog.ActionUpdatePlan, h.updatePlan),
		change(http.MethodDelete, planPath, "deletePlan", auditlog.ActionDeletePlan, h.deletePlan),
		change(http.MethodPost, planPath+"/publish", "publishPlan", auditlog.ActionPublishPlan, h.publishPlan),
		change(http.MethodPost, planPath+"/archive", "archivePlan", auditlog.ActionArchivePlan, h.archivePlan),

		read(subscriptionPath, "getSubscription", h.getSubscription),
		change(http.MethodPut, subscriptionPath, "setSubscription", auditlog.ActionSetSubscription, h.setSubscription),
		change(http.MethodDelete, subscriptionPath, "deleteSubscription", auditlog.ActionDeleteSubscription, h.deleteSubscription),
		read(buckets.ConsumerPath+"/access", "getAccess", h.access),
	}
}

// bucketOf returns the bucket that the path names.
func bucketOf(c *web.Call) domain.BucketKey {
	return domain.BucketKey{Account: c.Account(), Bucket: c.Param("bucketName")}
}

// pathIn returns a path of the bucket.
func pathIn(bucket domain.BucketKey, segments ...string) string {
	return web.PathIn(bucket.Account, append([]string{"key-buckets", bucket.Bucket}, segments...)...)
}

// simple reads a request that has neither a query nor a body.
func simple(c *web.Call) (domain.BucketKey, error) {
	bucket := bucketOf(c)
	return bucket, c.Check()
}
