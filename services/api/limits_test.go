package api_test

import (
	"net/http"
	"testing"

	"waybill.dev/services/api"
	"waybill.dev/shared/domain"
)

// One more than an account may have is refused, with what the operator can set; another account has its own count.
func TestLimitsOfAccounts(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) {
		o.Limits = domain.DefaultLimits()
		o.Limits.Buckets = 2
	}
	r.start()
	other := r.secondAccount("others")
	const path = "/v1/accounts/default/key-buckets"
	r.do(http.MethodPost, path, `{"name": "bucket-1"}`).want(http.StatusCreated)
	r.do(http.MethodPost, path, `{"name": "bucket-2"}`).want(http.StatusCreated)
	r.do(http.MethodPost, path, `{"name": "bucket-3"}`).want(http.StatusConflict).
		field("detail", "The account would have 3 buckets. It may have 2 (WAYBILL_MAX_BUCKETS).")
	r.do(http.MethodPost, "/v1/accounts/others/key-buckets", `{"name": "bucket-2"}`, as(other)).want(http.StatusCreated)
	r.do(http.MethodDelete, path+"/bucket-1", "").want(http.StatusNoContent)
	r.do(http.MethodPost, path, `{"name": "bucket-3"}`).want(http.StatusCreated)
}
