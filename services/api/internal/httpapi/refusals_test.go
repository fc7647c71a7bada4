package httpapi

import (
	"slices"
	"testing"
	"unicode/utf8"

	"waybill.dev/shared/store/auditlog"
)

// A change is named alike, whether it was made or refused.
func TestActionsAreTheStores(t *testing.T) {
	t.Parallel()
	actions := []string{
		auditlog.ActionCreateAccount, auditlog.ActionCreateAdminKey, auditlog.ActionCreateProject,
		auditlog.ActionCreateBucket, auditlog.ActionUpdateBucket, auditlog.ActionDeleteBucket,
		auditlog.ActionCreateConsumer, auditlog.ActionUpdateConsumer, auditlog.ActionDeleteConsumer,
		auditlog.ActionCreateKey, auditlog.ActionCreateKeys, auditlog.ActionUpdateKey, auditlog.ActionDeleteKey, auditlog.ActionRollKeys,
		auditlog.ActionCreateManager, auditlog.ActionDeleteManager,
		auditlog.ActionCreateWebhook, auditlog.ActionUpdateWebhook, auditlog.ActionDeleteWebhook, auditlog.ActionRotateSecret,
		auditlog.ActionTestWebhook, auditlog.ActionReplayWebhook, auditlog.ActionRetryDelivery,
	}
	for _, route := range Routes() {
		if !route.audited() {
			continue
		}
		at := slices.Index(actions, route.action())
		if at < 0 {
			t.Errorf("%s is %q in the audit log, which the store does not know", route.Operation, route.action())
			continue
		}
		actions = slices.Delete(actions, at, at+1)
	}
	if len(actions) > 0 {
		t.Errorf("no route is refused as %v", actions)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "abcd": "abcd", "abcde": "abcd", "aéé": "aé", "ééé": "éé", "🙂🙂": "🙂", "\xff": "\uFFFD", "a\xff\xffb": "a\uFFFD",
	} {
		got := cut(text, 4)
		if got != want || !utf8.ValidString(got) {
			t.Errorf("cut(%q) is %q, want %q", text, got, want)
		}
	}
}
