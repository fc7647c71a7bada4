// Package metering has the console's pages of metering: meters and features, plans, and the rights
// and usage of consumers.
package metering

import (
	"embed"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath     = "/console/metering"
	bucketPath   = listPath + "/{bucketName}"
	meterPath    = bucketPath + "/meters/{meterIdOrSlug}"
	featuresPath = bucketPath + "/features"
	featurePath  = featuresPath + "/{featureId}"
	plansPath    = bucketPath + "/plans"
	planPath     = plansPath + "/{planId}"
	membersPath  = bucketPath + "/consumers"
	memberPath   = membersPath + "/{consumerName}"
	order        = console.OrderAccess + 5

	consumerPath = "/console/access/buckets/{bucketName}/consumers/{consumerName}"
)

// Module returns the pages.
func Module() console.Module {
	show, act := console.Shown, console.Acted
	return console.Module{
		Name: "metering", Templates: files,
		Nav: []console.NavEntry{{Label: "Metering", Path: listPath, Icon: "metering", Order: order, Scopes: []domain.Scope{domain.ScopeBucketsRead, domain.ScopeMeteringRead}}},
		Routes: []console.Route{
			show(listPath, listBuckets),
			show(bucketPath, showMeters), act(bucketPath, createMeter),
			show(meterPath, showMeter), show(meterPath+"/delete", confirmMeter), act(meterPath+"/delete", deleteMeter),
			act(featuresPath, createFeature),
			show(featurePath+"/archive", confirmFeature), act(featurePath+"/archive", archiveFeature),
			show(plansPath, showPlans), act(plansPath, createPlan),
			show(planPath, showPlan), act(planPath, updatePlan),
			show(planPath+"/publish", confirmPublishing), act(planPath+"/publish", publishPlan),
			show(planPath+"/archive", confirmArchiving), act(planPath+"/archive", archivePlan),
			show(planPath+"/delete", confirmDeletion), act(planPath+"/delete", deletePlan),
			show(membersPath, showConsumers),
			show(memberPath, showConsumer), act(memberPath, setPlan),
			show(memberPath+"/delete", confirmEnd), act(memberPath+"/delete", endPlan),
		},
	}
}

// place is a bucket: on the console, and in the API.
type place struct{ Bucket string }

func at(p *console.Page) place { return place{p.Param("bucketName")} }

// Path returns the path of the bucket's meters, or of a page below it.
func (l place) Path(more ...string) string {
	return console.Path(append([]string{"console", "metering", l.Bucket}, more...)...)
}

// api returns a path below the bucket in the API.
func (l place) api(p *console.Page, more ...string) string {
	return console.Path(append([]string{"v1", "accounts", p.Account(), "key-buckets", l.Bucket}, more...)...)
}

// tabs returns the tabs of a bucket's metering.
func (l place) tabs(current string) []console.Tab {
	tabs := []console.Tab{{Label: "Use", Path: l.Path("consumers")}, {Label: "Plans", Path: l.Path("plans")}, {Label: "Meters and features", Path: l.Path()}}
	for i := range tabs {
		tabs[i].Current = tabs[i].Path == current
	}
	return tabs
}

// part returns the query for the part of a list that the address asks for.
func part(p *console.Page, limit int) url.Values {
	query := p.Pick("offset")
	query.Set("limit", strconv.Itoa(limit))
	return query
}

type bucket struct{ buckets.Bucket }

// Path returns the path of the usage of the bucket's consumers.
func (b bucket) Path() string { return place{b.Name}.Path("consumers") }

type bucketsView struct {
	Buckets []bucket
	Paging  console.Paging
	Access  bool // its page is available
}

// maxShown is how many entries of a list a page shows.
const maxShown = 50

func listBuckets(p *console.Page) error {
	var answer web.Listing[bucket]
	if err := p.API.Get(console.Path("v1", "accounts", p.Account(), "key-buckets"), part(p, maxShown), &answer); err != nil {
		return err
	}
	p.CLI("buckets list")
	return p.Show("buckets.html", "Metering", bucketsView{answer.Data, p.Offsets(answer.Offset, len(answer.Data), answer.Total), p.Has("/console/access")})
}

// may reports whether the session's key may change meters, features and plans.
func may(p *console.Page) bool { return p.May(domain.ScopeMeteringWrite) }
