package settings_test

import (
	"strings"
	"testing"

	"waybill.dev/cmd/internal/settings"
)

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	if err := settings.Unknown([]string{"WAYBILL_RETENTION=1h", "WAYBILL_KEY=k", "WAYBILL_CONFIG=f", "PATH=/bin", "waybill_x=1"}); err != nil {
		t.Errorf("known ones: %v", err)
	}
	err := settings.Unknown([]string{"WAYBILL_RETENTOIN=s3cret", "WAYBILL_COMPLETELY_DIFFERENT_THING=s3cret"})
	want := "WAYBILL_RETENTOIN is in the environment, but is no setting; did you mean WAYBILL_RETENTION?\n" +
		"WAYBILL_COMPLETELY_DIFFERENT_THING is in the environment, but is no setting"
	if err == nil || err.Error() != want || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
