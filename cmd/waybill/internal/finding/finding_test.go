package finding_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/judge"
)

func says(f ...judge.Finding) func(context.Context, string) []judge.Finding {
	return func(context.Context, string) []judge.Finding { return f }
}

func TestAHangingCheckHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		began := time.Now()
		found := finding.Run(t.Context(), "it", []finding.Check[string]{
			{Group: "A", Name: "first", Run: says(judge.Good("well", "It is."))},
			{Group: "A", Name: "hangs", Run: func(context.Context, string) []judge.Finding { <-free; return nil }},
			{Group: "B", Name: "heeds", Run: func(ctx context.Context, on string) []judge.Finding {
				<-ctx.Done()
				return []judge.Finding{judge.Warn(on+" is slow", "It is.", "wait")}
			}},
			{Group: "B", Name: "last", Run: says(finding.None("it is not here"))},
		}, 10*time.Second)
		if took := time.Since(began); took != 11*time.Second {
			t.Errorf("it took %s", took)
		}
		var got []string
		for _, f := range found {
			got = append(got, f.Group+" "+f.Name+" "+string(f.Level))
		}
		want := []string{"A first ok", "A hangs fault", "B heeds warning", "B last not applicable"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if finding.Count(found, judge.Fault) != 1 {
			t.Error("faults are not counted")
		}
		close(free)
	})
}

const printed = `A
  ✓ first           well
  ✗ second          a long text that has to be broken because it is longer than
                    the terminal is wide
                    Nothing works.
                    → waybill dev

B
  ! third           weak
                    It works for now, and after a while it may not, which is a
                    pity.
                    → look at it again when there is time for that, and change
                      what is to be changed
  - fourth          not here
`

func TestPrint(t *testing.T) {
	t.Parallel()
	list := []judge.Finding{
		{Group: "A", Name: "first", Level: judge.OK, Found: "well", Means: "It is."},
		{Group: "A", Name: "second", Level: judge.Fault, Found: "a long text that has to be broken because it is longer than the terminal is wide", Means: "Nothing works.", Do: "waybill dev"},
		{Group: "B", Name: "third", Level: judge.Warning, Found: "weak", Means: "It works for now, and after a while it may not, which is a pity.", Do: "look at it again when there is time for that, and change what is to be changed"},
		{Group: "B", Name: "fourth", Level: judge.Absent, Found: "not here", Means: "No."},
	}
	var b strings.Builder
	finding.Print(&b, terminal.Style{}, list, 80, false)
	if diff := cmp.Diff(printed, b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	finding.Print(&b, terminal.Style{}, list, 80, true)
	if !strings.Contains(b.String(), "                    It is.\n") {
		t.Errorf("with everything:\n%s", &b)
	}
	if got := finding.Summary(terminal.Style{}, list); got != "1 fault, 1 warning" {
		t.Errorf("summary %q", got)
	}
}
