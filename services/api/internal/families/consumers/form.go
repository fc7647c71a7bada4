package consumers

import (
	"encoding/json"
	"slices"
	"strconv"

	"waybill.dev/services/api/internal/families/keys"
	"waybill.dev/services/api/internal/families/managers"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
)

// form is the consumer in a request.
type form struct {
	web.Changes[domain.Consumer]
	scopes   []domain.Scope
	managers []domain.Manager
	keys     []domain.APIKey
}

// read reads the fields that creation and PATCH have in common.
func read(f *input.Form) form {
	var said form
	if text, ok := f.Text("description", 0, web.MaxDescription); ok {
		said.Add(func(c *domain.Consumer) { c.Description = text })
	}
	if tags, ok := web.ReadTags(f); ok {
		said.Add(func(c *domain.Consumer) { c.Tags = tags })
	}
	if raw, ok := f.Object("metadata"); len(raw) > web.MaxExtra {
		f.Fault(web.ExtraTooLarge, "metadata")
	} else if ok {
		said.Add(func(c *domain.Consumer) { c.Metadata = json.RawMessage(raw) })
	}
	if scopes, ok := readScopes(f); ok {
		said.scopes = scopes
		said.Add(func(c *domain.Consumer) { c.Scopes = scopes })
	}
	return said
}

func readScopes(f *input.Form) ([]domain.Scope, bool) {
	known := domain.Scopes()
	texts, ok := f.Texts("scopes", 0, len(known))
	if !ok {
		return nil, false
	}
	scopes := make([]domain.Scope, 0, len(texts))
	for i, text := range texts {
		scope := domain.Scope(text)
		switch {
		case !slices.Contains(known, scope):
			f.Fault(web.MustBeOneOf(known), "scopes", strconv.Itoa(i))
		case slices.Contains(scopes, scope):
			f.Fault("is given twice", "scopes", strconv.Itoa(i))
		default:
			scopes = append(scopes, scope)
		}
	}
	return scopes, true
}

// readNew reads the fields of a creation, including those that PATCH does not have.
func readNew(f *input.Form, maker keys.Maker) form {
	said := read(f)
	said.managers = managers.ReadAll(f)
	elements, _ := f.Elements("apiKeys", 0, keys.MaxBulk, false)
	for _, element := range elements {
		if element.Form == nil {
			continue // reported already
		}
		said.keys = append(said.keys, keys.ReadNew(element.Form, maker))
	}
	return said
}
