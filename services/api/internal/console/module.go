package console

import (
	"io/fs"
	"net/http"
	"slices"

	"waybill.dev/shared/domain"
)

// Module is a group of console pages: their templates, routes and entries in the navigation.
type Module struct {
	Name string // name of the package, for messages
	// Templates has the pages' templates, templates/*.html. A name that begins with _ is a
	// part that all pages of the module may use.
	Templates fs.FS
	Routes    []Route
	Nav       []NavEntry
	// Find returns the pages and actions that a search can lead to, as far as the session may see and use them. It
	// is nil for modules without any.
	Find func(*Page) []Hit
}

// Route is one page, or one act.
type Route struct {
	Method string // GET shows, POST changes
	// Path is a pattern of net/http, as /console/events/{eventId}. A test fills in parameters by
	// their names: eventId, deliveryId, webhookId, jobId, shipmentId, eventType, bucketName,
	// consumerName, keyId, managerId, sequence, tab, projectName, branchName, variableName,
	// deploymentName, buildId, requestId, meterIdOrSlug, featureId, planId.
	Path string
	// Static says that the page does not call the API, so the tests of the API's answers do not apply to it.
	Static bool
	Handle func(*Page) error
}

// NavEntry is a line of the navigation.
type NavEntry struct {
	Label string
	Path  string
	Icon  string // a name of templates/icons.html
	Order int    // see the constants
	// Key is the letter that goes there after g; empty: none.
	Key string
	// Scopes are the scopes that a session needs for the page. The menu leaves the entry out if one is missing.
	Scopes []domain.Scope
	// Operator: the page is about the process, and only admins of the operator's account may go there.
	Operator bool
}

// Places in the navigation. Each hundred is a group of its own, see groupNames.
const (
	OrderHome         = 10
	OrderProblems     = 20
	OrderEvents       = 110
	OrderDeliveries   = 120
	OrderWebhooks     = 130
	OrderCatalogue    = 140
	OrderDeployments  = 210
	OrderEnvironments = 220
	OrderAccess       = 310
	OrderMCP          = 320
	OrderAudit        = 330
	OrderSettings     = 340
	OrderRoutes       = 410
	OrderSystem       = 420

	groupOf = 100
)

func groupNames() []string {
	return []string{"Overview", "Delivery", "Gateway", "Account", "Installation"}
}

func sortNav(nav []NavEntry) {
	slices.SortStableFunc(nav, func(a, b NavEntry) int { return a.Order - b.Order })
}

// Shown returns the route of a page.
func Shown(path string, handle func(*Page) error) Route {
	return Route{Method: http.MethodGet, Path: path, Handle: handle}
}

// Acted returns the route of an action, which a form of a page sends.
func Acted(path string, handle func(*Page) error) Route {
	return Route{Method: http.MethodPost, Path: path, Handle: handle}
}
