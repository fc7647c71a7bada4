package problem_test

import (
	"strings"
	"testing"

	"waybill.dev/shared/problem"
)

// A key that was put into a path, or where the name of a field belongs, is not told again.
func TestNoSecretInPlaces(t *testing.T) {
	t.Parallel()
	const key, secret = "wbk_0123456789ABCDEFGHIJKLMNOPQRSTUV_5c339a43", "whsec_ZXhhbXBsZSBvZiBhIHNlY3JldCBvZiAzMiBieXRlcy4="
	for _, text := range []string{key, secret, key[:30], key + key, strings.ReplaceAll(secret, "=", "%3D"), "whsec_Zm~1~1" + secret[10:]} {
		p := problem.Invalid(problem.Fault{Pointer: "/0/" + text, Detail: "is unknown"}, problem.Fault{Parameter: text, Detail: "is unknown"})
		body := string(p.JSON("/v1/webhooks/"+text+"/test", "r"))
		if strings.Contains(body, text[14:24]) || !strings.Contains(body, "****") {
			t.Errorf("%s is in %s", text, body)
		}
	}
	const place = "/v1/accounts/default/key-buckets/wbk_short/consumers/whsec_key"
	if body := string(problem.Missing().JSON(place, "r")); !strings.Contains(body, `"instance":"`+place+`"`) {
		t.Errorf("the place is changed: %s", body)
	}
}
