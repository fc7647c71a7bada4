package tunnel_test

import (
	"strings"
	"testing"

	"waybill.dev/shared/tunnel"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	token := tunnel.NewToken().Reveal()
	if !tunnel.WellFormed(token) || !strings.HasSuffix(token, tunnel.Suffix(token)) || token == tunnel.NewToken().Reveal() {
		t.Errorf("a fresh token of %d characters is no token", len(token))
	}
	for _, wrong := range []string{
		"", "wbt_", token + "x", token[1:], strings.Replace(token, "wbt_", "wbk_", 1), strings.ToUpper(token),
		"wbt_0123456789abcdefghijklmnopqrstuv_00000000", "wbt_" + strings.Repeat("-", 32) + "_00000000",
	} {
		if tunnel.WellFormed(wrong) {
			t.Errorf("%q is taken for a token", wrong)
		}
	}
}
