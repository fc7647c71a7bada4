package web

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
)

// Bounds of a consumer's fields.
const (
	maxConsumerName = 128
	maxManagers     = 100
)

// consumerForm is what a request says of a consumer.
type consumerForm struct {
	changes  []func(*domain.Consumer)
	scopes   []domain.Scope
	managers []domain.Manager
	keys     []domain.APIKey
}

// readConsumer reads the fields that creation and PATCH have in common.
func readConsumer(f *input.Form) consumerForm {
	var form consumerForm
	if text, ok := f.Text("description", 0, maxDescription); ok {
		form.change(func(c *domain.Consumer) { c.Description = text })
	}
	if tags, ok := readTags(f); ok {
		form.change(func(c *domain.Consumer) { c.Tags = tags })
	}
	if raw, ok := f.Object("metadata"); len(raw) > maxExtra {
		f.Fault(extraTooLarge, "metadata")
	} else if ok {
		form.change(func(c *domain.Consumer) { c.Metadata = json.RawMessage(raw) })
	}
	if scopes, ok := readScopes(f); ok {
		form.scopes = scopes
		form.change(func(c *domain.Consumer) { c.Scopes = scopes })
	}
	return form
}

func (form *consumerForm) change(f func(*domain.Consumer)) { form.changes = append(form.changes, f) }

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
			f.Fault("must be one of "+joinScopes(known), "scopes", strconv.Itoa(i))
		case slices.Contains(scopes, scope):
			f.Fault("is given twice", "scopes", strconv.Itoa(i))
		default:
			scopes = append(scopes, scope)
		}
	}
	return scopes, true
}

func joinScopes(scopes []domain.Scope) string {
	words := make([]string, len(scopes))
	for i, scope := range scopes {
		words[i] = string(scope)
	}
	return strings.Join(words, ", ")
}

// readNewConsumer reads what only creation has, too.
func (s *server) readNewConsumer(f *input.Form) consumerForm {
	form := readConsumer(f)
	form.managers = readManagers(f)
	keys, _ := f.Elements("apiKeys", 0, maxBulk, false)
	for _, element := range keys {
		if element.Form == nil {
			continue // a fault already
		}
		form.keys = append(form.keys, s.readNewKey(element.Form))
	}
	return form
}

// readManagers reads a list of addresses, or of managers.
func readManagers(f *input.Form) []domain.Manager {
	elements, _ := f.Elements("managers", 0, maxManagers, true)
	managers := make([]domain.Manager, 0, len(elements))
	for i, element := range elements {
		m := domain.Manager{Email: element.Text}
		if element.Form != nil {
			m = readManager(element.Form)
		} else if !validEmail(element.Text) {
			f.Fault(badEmail, "managers", strconv.Itoa(i))
			continue
		}
		if slices.Contains(managers, m) {
			f.Fault("is given twice", "managers", strconv.Itoa(i))
		}
		managers = append(managers, m)
	}
	return managers
}
