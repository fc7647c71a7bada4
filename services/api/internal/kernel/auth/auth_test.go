package auth_test

import (
	"testing"

	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
)

func TestScopes(t *testing.T) {
	t.Parallel()
	with := func(scopes ...domain.Scope) apikey.Principal { return apikey.Principal{Scopes: scopes} }
	read, write := domain.ScopeBucketsRead, domain.ScopeBucketsWrite
	for _, tc := range []struct {
		principal apikey.Principal
		scope     domain.Scope
		may       bool
	}{
		{with(), domain.ScopeAny, true},
		{with(), read, false},
		{with(read), read, true},
		{with(write), read, false},
		{with(read), domain.ScopeAdmin, false},
		{with(domain.ScopeAdmin), domain.ScopeMCP, true},
		{with(domain.Scopes()[:7]...), domain.ScopeAdmin, false},
	} {
		if got := tc.principal.May(tc.scope); got != tc.may {
			t.Errorf("with %v, %s: %v", tc.principal.Scopes, tc.scope, got)
		}
	}
	for _, tc := range []struct {
		scopes  []domain.Scope
		of      apikey.Principal
		exceeds bool
	}{
		{nil, with(), false},
		{[]domain.Scope{read}, with(), true},
		{[]domain.Scope{read, write}, with(read), true},
		{[]domain.Scope{read}, with(read, write), false},
		{[]domain.Scope{domain.ScopeAdmin}, with(domain.Scopes()[:7]...), true},
		{domain.Scopes(), with(domain.ScopeAdmin), false},
		{[]domain.Scope{"of tomorrow"}, with(read), true},
	} {
		if got := auth.Exceeds(tc.scopes, tc.of); got != tc.exceeds {
			t.Errorf("%v exceed %v: %v", tc.scopes, tc.of.Scopes, got)
		}
	}
	own := apikey.Principal{Account: "acme", Type: apikey.TypeKey, Scopes: []domain.Scope{domain.ScopeAdmin}}
	boot := apikey.Principal{Account: "default", Type: apikey.TypeBootstrap}
	if !own.Sees("acme") || own.Sees("default") || own.Sees("") || boot.Sees("acme") || !boot.Sees("default") {
		t.Error("a key sees its own account, and the bootstrap key the default one")
	}
}
