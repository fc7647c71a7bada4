package metering

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
)

const (
	slugFault = "must have 1 to 64 characters and match ^[a-z0-9]+(?:_[a-z0-9]+)*$"

	maxName   = 256
	maxPairs  = 50
	maxGroups = 10
	maxPhases = 20
	maxCards  = 100
	maxQuota  = 1 << 53
	maxKept   = 4 << 10 // bytes of an object that is stored and returned
)

// slug reads a slug or key.
func slug(f *input.Form, name string) string {
	text, ok := f.Text(name, 1, 64)
	if ok && !domain.ValidSlug(text) {
		f.Fault(slugFault, name)
	}
	return text
}

func pairs(f *input.Form, name string, most int) map[string]string {
	if f.Null(name) {
		return nil
	}
	list, _ := f.Pairs(name, most)
	size := 0
	var values map[string]string
	for _, pair := range list {
		if values == nil {
			values = make(map[string]string, len(list))
		}
		values[pair.Name] = pair.Value
		size += len(pair.Name) + len(pair.Value)
	}
	if size > web.MaxExtra {
		f.Fault(web.ExtraTooLarge, name)
	}
	return values
}

// filters reads the values that a query asks for, by the name of their group. A client gives one
// string for a group, or a list.
func filters(f *input.Form, name string) map[string][]string {
	if f.Null(name) {
		return nil
	}
	values, _ := f.Lists(name, maxGroups, maxAsked)
	size := 0
	for group, list := range values {
		size += len(group)
		for _, value := range list {
			size += len(value)
		}
	}
	if size > web.MaxExtra {
		f.Fault(web.ExtraTooLarge, name)
	}
	return values
}

// texts reads a name, a description and metadata.
func texts(f *input.Form) (name, description string, metadata map[string]string) {
	name, _ = f.Text("name", 1, maxName)
	description, _ = f.Text("description", 0, web.MaxDescription)
	return name, description, pairs(f, "metadata", maxPairs)
}

func groups(f *input.Form) map[string]string {
	values := pairs(f, "groupBy", maxGroups)
	for name, path := range values {
		switch {
		case !domain.ValidSlug(name) || name == "subject" || name == "customer_id":
			f.Fault(slugFault+", and be neither subject nor customer_id", "groupBy", name)
		case !slices.Contains(domain.MeterDims(), path):
			f.Fault(web.MustBeOneOf(domain.MeterDims()), "groupBy", name)
		}
	}
	return values
}

func readMeter(f *input.Form) domain.Meter {
	f.Require("slug", "aggregation", "eventType")
	var m domain.Meter
	m.Slug = slug(f, "slug")
	m.Name, m.Description, m.Metadata = texts(f)
	m.Name = cmp.Or(m.Name, m.Slug)
	m.Aggregation, _ = web.ReadChoice(f, "aggregation", domain.Aggregations())
	m.EventType = slug(f, "eventType")
	if from, ok := f.Time("eventFrom"); ok {
		if m.EventFrom = from; !fullHour(from) {
			f.Fault(hourFault, "eventFrom")
		}
	}
	value, given := f.Text("valueProperty", 1, 64)
	switch {
	case given && value != domain.MeterTotal:
		f.Fault("must be "+domain.MeterTotal, "valueProperty")
	case given && m.Aggregation == domain.AggregationCount:
		f.Fault("can't be given with COUNT", "valueProperty")
	case !given && m.Aggregation == domain.AggregationSum:
		f.Fault("is required with SUM", "valueProperty")
	}
	m.ValueProperty, m.GroupBy = value, groups(f)
	return m
}

const hourFault = "must be a full hour"

func fullHour(at time.Time) bool { return at.Equal(at.Truncate(time.Hour)) }

func readFeature(f *input.Form) domain.Feature {
	f.Require("key", "name")
	var feature domain.Feature
	feature.Key = slug(f, "key")
	feature.Name, _ = f.Text("name", 1, maxName)
	feature.Metadata = pairs(f, "metadata", maxPairs)
	if f.Has("meterSlug") && !f.Null("meterSlug") {
		feature.MeterSlug = slug(f, "meterSlug")
	}
	feature.Filters = pairs(f, "meterGroupByFilters", maxGroups)
	if len(feature.Filters) > 0 && feature.MeterSlug == "" {
		f.Fault("needs meterSlug", "meterGroupByFilters")
	}
	return feature
}

// readPlan reads a new plan, or the new version of a draft. A draft keeps its key, and its currency if none is given. Fields that
// Waybill sets itself are ignored, so that a client may send back what it has read.
func readPlan(f *input.Form, made bool) domain.Plan {
	f.Require("name", "billingCadence", "phases")
	var p domain.Plan
	if made {
		f.Require("key", "currency")
		p.Key = slug(f, "key")
	} else {
		f.Ignore("id", "key", "version", "status", "effectiveFrom", "effectiveTo", "createdAt", "updatedAt")
	}
	p.Name, p.Description, p.Metadata = texts(f)
	if currency, ok := f.Text("currency", 3, 3); ok {
		if p.Currency = currency; strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			f.Fault("must be three capital letters, such as USD", "currency")
		}
	}
	p.BillingCadence, _ = web.ReadChoice(f, "billingCadence", domain.Cadences())
	p.Alignment, p.ProRating = kept(f, "alignment"), kept(f, "proRatingConfig")
	list, _ := f.Elements("phases", 1, maxPhases, false)
	seen := map[string]bool{}
	for i, element := range list {
		if element.Form == nil {
			continue // reported already
		}
		phase := readPhase(element.Form, &p, i == len(list)-1)
		if seen[phase.Key] {
			f.Fault("is the key of another phase", "phases", strconv.Itoa(i), "key")
		}
		seen[phase.Key] = true
		p.Phases = append(p.Phases, phase)
	}
	return p
}

// kept reads an object that is returned unchanged later.
func kept(f *input.Form, name string) []byte {
	if f.Null(name) {
		return nil
	}
	value, ok := f.Object(name)
	if ok && len(value) > maxKept {
		f.Fault("must have at most 4 KiB", name)
	}
	return value
}

func readPhase(f *input.Form, p *domain.Plan, last bool) domain.Phase {
	f.Require("key", "name", "rateCards")
	phase := domain.Phase{Key: slug(f, "key"), RateCards: []domain.RateCard{}}
	phase.Name, phase.Description, phase.Metadata = texts(f)
	switch given := f.Has("duration") && !f.Null("duration"); {
	case given && last:
		f.Ignore("duration")
		f.Fault("must be null in the last phase, which has no end", "duration")
	case given:
		phase.Duration, _ = web.ReadChoice(f, "duration", domain.Cadences())
	case !last:
		f.Fault("is required in every phase but the last", "duration")
	}
	list, _ := f.Elements("rateCards", 0, maxCards, false)
	keys, features := map[string]bool{}, map[string]bool{}
	for i, element := range list {
		if element.Form == nil {
			continue
		}
		card := readCard(element.Form, p)
		if keys[card.Key] {
			f.Fault("is the key of another rate card", "rateCards", strconv.Itoa(i), "key")
		}
		if card.FeatureKey != "" && features[card.FeatureKey] {
			f.Fault("is the feature of another rate card", "rateCards", strconv.Itoa(i), "featureKey")
		}
		keys[card.Key], features[card.FeatureKey] = true, true
		phase.RateCards = append(phase.RateCards, card)
	}
	return phase
}

func readCard(f *input.Form, p *domain.Plan) domain.RateCard {
	f.Require("type", "key", "name")
	card := domain.RateCard{Key: slug(f, "key")}
	card.Type, _ = web.ReadChoice(f, "type", []string{"flat_fee", "usage_based"})
	card.Name, card.Description, card.Metadata = texts(f)
	if f.Has("featureKey") && !f.Null("featureKey") {
		card.FeatureKey = slug(f, "featureKey")
	}
	if !f.Null("billingCadence") {
		cadence, ok := web.ReadChoice(f, "billingCadence", domain.Cadences())
		if card.BillingCadence = cadence; ok && p.BillingCadence != "" && !cadence.Fits(p.BillingCadence) {
			f.Fault("must be the plan's, or divide or multiply it", "billingCadence")
		}
	}
	if !f.Null("entitlementTemplate") {
		if inner, ok := f.Inner("entitlementTemplate"); ok {
			card.Entitlement = readEntitlement(inner)
			if card.FeatureKey == "" {
				f.Fault("needs featureKey", "entitlementTemplate")
			}
		}
	}
	card.Price, card.Discounts, card.TaxConfig = kept(f, "price"), kept(f, "discounts"), kept(f, "taxConfig")
	return card
}

func readEntitlement(f *input.Form) *domain.Entitlement {
	f.Require("type")
	e := &domain.Entitlement{Metadata: kept(f, "metadata")}
	e.Type, _ = web.ReadChoice(f, "type", []string{domain.EntitlementMetered, domain.EntitlementBoolean, domain.EntitlementStatic})
	switch e.Type {
	case domain.EntitlementMetered:
		e.IsSoftLimit, _ = f.Bool("isSoftLimit")
		if !e.IsSoftLimit {
			f.Require("issueAfterReset")
		}
		amount, _ := f.Integer("issueAfterReset", 0, maxQuota)
		e.IssueAfterReset = int64(amount)
		if keep, _ := f.Bool("preserveOverageAtReset"); keep {
			f.Fault("must be false: a period begins with nothing used", "preserveOverageAtReset")
		}
		if !f.Null("usagePeriod") {
			e.UsagePeriod, _ = web.ReadChoice(f, "usagePeriod", domain.Cadences())
		}
	case domain.EntitlementStatic:
		f.Require("config")
		e.Config = kept(f, "config")
	case domain.EntitlementBoolean:
		if value, ok := f.Bool("config"); ok && !value {
			f.Fault("must be true, or left out", "config")
		}
	default:
		f.Ignore("issueAfterReset", "isSoftLimit", "preserveOverageAtReset", "usagePeriod", "config")
	}
	return e
}
