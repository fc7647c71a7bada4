// Package audit has the console's page of the audit log: what was changed or refused, by which key,
// and from which address.
package audit

import (
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/kernel/audit"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/auditlog"
)

//go:embed templates/*.html
var files embed.FS

const path = "/console/audit"

// Module returns the page.
func Module() console.Module {
	return console.Module{
		Name: "audit", Templates: files,
		Nav:    []console.NavEntry{{Label: "Audit", Path: path, Icon: "audit", Order: console.OrderAudit, Key: "u", Scopes: []domain.Scope{domain.ScopeAdmin}}},
		Routes: []console.Route{{Method: http.MethodGet, Path: path, Handle: show}},
	}
}

// pageOf returns the path of the page of a changed resource; empty: its place is not known, or it
// may have been deleted.
func pageOf(r audit.Resource) string {
	switch r.Type {
	case "bucket":
		if r.Metadata != nil {
			return console.Path("console", "access", "buckets", r.Metadata.Name)
		}
	case "webhook":
		return console.Path("console", "webhooks", r.ID)
	case "delivery":
		return console.Path("console", "deliveries", r.ID)
	}
	return ""
}

// line is an entry of the log for the page.
type line struct {
	audit.Entry

	Verb  string // the action in words
	Links []link
}

type link struct{ Type, Name, ID, Path string }

// nameless returns 1 for a resource that only its id is known of, and else 0.
func (l link) nameless() int {
	if l.Name == "" {
		return 1
	}
	return 0
}

type view struct {
	Form     *console.Form
	Range    console.Range
	Actions  []string // choices of the filter
	Outcomes []console.Option
	Lines    []line
	Total    int
	Filtered bool
	Paging   console.Paging
}

// few is how many entries a page has; the API answers with 100 at most.
const few = 50

// filters returns the parameters of the page which select entries.
func filters() []string {
	return []string{"action", "actor", "success", "startDate", "endDate"}
}

func show(p *console.Page) error {
	query, form := p.Filters(append(filters(), "offset")...)
	query.Set("limit", strconv.Itoa(few))
	var a audit.List[audit.Entry]
	if err := p.API.Get(console.Path("v1", "accounts", p.Account(), "audit-logs"), query, &a); err != nil {
		return err
	}
	p.CLI(command(query))
	v := view{
		Form: form, Range: p.Range(form, "startDate", "endDate"), Total: a.Pagination.Total, Filtered: len(p.Pick(filters()...)) > 0,
		Paging:   p.Offsets(a.Pagination.Offset, len(a.Data), a.Pagination.Total),
		Outcomes: []console.Option{{Value: "", Label: "Any"}, {Value: "true", Label: "Done"}, {Value: "false", Label: "Refused"}},
		Actions:  auditlog.Actions(),
	}
	var hooks deliverylog.Webhooks
	if slices.ContainsFunc(a.Data, func(e audit.Entry) bool {
		return slices.ContainsFunc(e.Resources, func(r audit.Resource) bool { return r.Type == auditlog.ResourceWebhook })
	}) {
		hooks, _ = deliverylog.ReadWebhooks(p)
	}
	for _, e := range a.Data {
		l := line{Entry: e, Verb: words.Action(e.Action)}
		for _, r := range e.Resources {
			to := link{words.Resource(r.Type), web.Value(r.Metadata).Name, r.ID, pageOf(r)}
			if r.Type == auditlog.ResourceWebhook {
				to.Name = hooks.Of(domain.WebhookID(r.ID)).Name()
			}
			switch {
			case strings.HasPrefix(e.Action, "delete-") && e.Success, r.Type == "webhook" && !p.Has("/console/webhooks/{webhookId}"), r.Type == "delivery" && !p.Has("/console/deliveries/{deliveryId}"):
				to.Path = ""
			}
			l.Links = append(l.Links, to)
		}
		slices.Reverse(l.Links) // the resource first, then the resources that contain it; an id tells less than a name
		slices.SortStableFunc(l.Links, func(a, b link) int { return a.nameless() - b.nameless() })
		v.Lines = append(v.Lines, l)
	}
	return p.Show("audit.html", "Audit", v)
}

// command returns the command for the page's list.
func command(query url.Values) string {
	var text strings.Builder
	text.WriteString("audit list")
	for _, flag := range []struct{ parameter, flag string }{
		{"action", "--action "}, {"actor", "--actor "}, {"success", "--success="}, {"startDate", "--since "}, {"endDate", "--until "}, {"offset", "--offset "},
	} {
		if value := query.Get(flag.parameter); value != "" {
			text.WriteString(" " + flag.flag + console.Shell(value))
		}
	}
	return text.String()
}
