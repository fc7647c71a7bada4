package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/store/access"
)

// The kernel's own pages, empty and full.
func TestOwnTemplates(t *testing.T) {
	t.Parallel()
	hostile := "<script>alert(1)</script>\u202e\x00"
	full := &console.Problem{
		Status: http.StatusServiceUnavailable, Title: hostile, Detail: hostile, Code: "UNAVAILABLE", RequestID: "r", Scope: "events:read",
		Faults: []console.Fault{{Pointer: "/" + hostile, Detail: hostile}, {Parameter: hostile}, {}},
	}
	confirm := console.Confirm{
		Title: hostile, Effect: hostile, Facts: []console.Fact{{Name: "n", Value: hostile}}, Verb: "Delete", Danger: true,
		Action: "/console/x", Hidden: url.Values{"id": {hostile}}, Back: "/console",
	}
	for name, samples := range map[string][]any{
		"problem.html":      {&console.Problem{}, full},
		"forbidden.html":    {&console.Problem{}, full},
		"confirm.html":      {console.Confirm{}, confirm},
		"cross-origin.html": {struct{ Origin, Expected string }{}, struct{ Origin, Expected string }{hostile, hostile}},
		"sign-in.html":      {console.SignIn{}, console.SignIn{Next: "/console?" + hostile, Wrong: hostile, OIDC: true}},
		"instead.html":      {console.Instead{}, console.Instead{Code: hostile, Account: hostile, Who: hostile, FormerAccount: hostile, FormerWho: hostile}},
		"enter.html":        {console.SignIn{}, console.SignIn{Wrong: hostile}},
		"choice.html": {
			&console.Choice{}, &console.Choice{Search: hostile}, &console.Choice{
				Person: hostile, First: "/console", Next: "/console",
				Accounts: []access.ManagedAccount{{Account: hostile, Consumers: 2, Invitations: 1}, {Account: "b", Only: &access.Managed{ManagerID: hostile}}, {Account: "c", Invitations: 2}},
			}, &console.Choice{
				Person: hostile, Account: hostile, Search: hostile,
				Consumers: []access.Managed{{ManagerID: hostile, Bucket: "b", Consumer: hostile}, {Invited: true, InvitedBy: hostile}, {Invited: true, InvitedBy: "bootstrap"}},
			},
		},
	} {
		for i, data := range samples {
			text, err := console.Execute(console.Module{}, name, data)
			if err == nil {
				err = consoletest.Check(text)
			}
			if err != nil {
				t.Errorf("%s with sample %d: %v\n%s", name, i, err, text)
			}
		}
	}
}
