package policy_test

import (
	"net/url"

	"waybill.dev/services/gateway/internal/route"
)

func setQuery(r *route.Request, raw string) { r.Query = route.ParseQuery(&url.URL{RawQuery: raw}) }
