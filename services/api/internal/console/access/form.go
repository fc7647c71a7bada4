package access

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/shared/domain"
)

// tag is a tag, for templates.
type tag struct{ Name, Value string }

func tagsOf(tags map[string]string) []tag {
	var all []tag
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, tag{name, tags[name]})
	}
	return all
}

// parseTags reads tags as they are typed: name=value, one per line.
func parseTags(text string) map[string]string {
	tags := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name = strings.TrimSpace(name); name != "" {
			tags[name] = strings.TrimSpace(value)
		}
	}
	return tags
}

func formatTags(tags map[string]string) string {
	var b strings.Builder
	for _, t := range tagsOf(tags) {
		b.WriteString(t.Name + "=" + t.Value + "\n")
	}
	return b.String()
}

// scopeChoice is a scope in a form.
type scopeChoice struct {
	Name, For string
	Held, May bool // May: the session's key has the scope, so it can grant it
}

func scopeChoices(p *console.Page, chosen []string) []scopeChoice {
	var list []scopeChoice
	for _, s := range domain.Scopes() {
		list = append(list, scopeChoice{string(s), words.Scope(s), slices.Contains(chosen, string(s)), p.May(s)})
	}
	return list
}

func texts(scopes []domain.Scope) []string {
	list := make([]string, len(scopes))
	for i, s := range scopes {
		list[i] = string(s)
	}
	return list
}

// atTime is the choice of another date and time.
const atTime = "at"

// lives returns the choices for the lifetime of a key.
func lives(none string) []console.Option {
	return []console.Option{
		{Value: "", Label: none},
		{Value: "1h", Label: "In an hour"}, {Value: "24h", Label: "In a day"}, {Value: "168h", Label: "In 7 days"},
		{Value: "720h", Label: "In 30 days"}, {Value: "2160h", Label: "In 90 days"}, {Value: "8760h", Label: "In a year"},
		{Value: atTime, Label: "At the time below"},
	}
}

// readEnd reads the end of a key; nil: none was given. Invalid times are left to the API to refuse.
func readEnd(values url.Values, now time.Time) *string {
	ends, typed := values.Get("ends"), strings.TrimSpace(values.Get("expiresOn"))
	var text string
	switch d, err := time.ParseDuration(ends); {
	case err == nil:
		text = now.Add(d).UTC().Truncate(time.Second).Format(time.RFC3339)
	case ends == "":
		return nil
	default:
		text = typed
		for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
			if t, err := time.Parse(layout, typed); err == nil {
				text = t.Format(time.RFC3339)
			}
		}
	}
	return &text
}

func ended(expires *string, now time.Time) bool {
	if expires == nil {
		return false
	}
	t, err := time.Parse(time.RFC3339, *expires)
	return err == nil && !now.Before(t)
}

func number(n int) string { return strconv.Itoa(n) }

// lacks is the page in the place of a form that the session's key could not send.
type lacks struct {
	Scope domain.Scope
	Back  string
}

func needs(p *console.Page, back string, scope domain.Scope) error {
	return p.Show("lacks.html", "No right to do this", lacks{scope, back})
}
