package judge_test

import (
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/judge"
)

func TestFindings(t *testing.T) {
	t.Parallel()
	const timeout = 15 * time.Second
	answer := func(status int) judge.Answer { return judge.Answer{Status: status, Took: time.Second} }
	signed := func(status int, known bool) judge.Finding { return judge.Signed(answer(status), known, timeout)[0] }
	for name, tc := range map[string]struct {
		got  judge.Finding
		want judge.Level
	}{
		"accepted":                        {signed(204, true), judge.OK},
		"accepted with an unknown secret": {signed(200, false), judge.Warning},
		"refused with an unknown secret":  {signed(401, false), judge.OK},
		"refused":                         {signed(403, true), judge.Fault},
		"redirect":                        {signed(302, true), judge.Fault},
		"gone":                            {signed(410, true), judge.Fault},
		"failed":                          {signed(500, true), judge.Fault},
		"no answer":                       {judge.Signed(judge.Answer{Error: "timeout"}, true, timeout)[0], judge.Fault},
		"slow":                            {judge.Signed(judge.Answer{Status: 200, Took: 8 * time.Second}, true, timeout)[1], judge.Warning},
		"wrong secret, accepted":          {judge.WrongSecret(answer(200)), judge.Warning},
		"wrong secret, refused":           {judge.WrongSecret(answer(401)), judge.OK},
		"wrong secret, failed":            {judge.WrongSecret(answer(500)), judge.Warning},
		"old time, accepted":              {judge.OldTime(answer(200)), judge.Warning},
		"old time, refused":               {judge.OldTime(answer(400)), judge.OK},
		"forged, accepted":                {judge.Forged(domain.ForgeWrongSecret, answer(200)), judge.Warning},
		"forged, refused":                 {judge.Forged(domain.ForgeOldTime, answer(401)), judge.OK},
		"forged, no answer":               {judge.Forged(domain.ForgeOldTime, judge.Answer{Error: "timeout"}), judge.Fault},
	} {
		if tc.got.Level != tc.want || tc.got.Name == "" || tc.got.Found == "" || tc.got.Means == "" {
			t.Errorf("%s: %+v, want the level %q", name, tc.got, tc.want)
		}
	}
	if judge.Telling(answer(200), answer(200)) || judge.Telling(answer(401), answer(401)) || judge.Telling(answer(200), judge.Answer{}) || !judge.Telling(answer(200), answer(401)) {
		t.Error("an old time is told where it shows nothing, or not where it does")
	}
}
