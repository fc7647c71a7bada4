package domains_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"waybill.dev/services/api/internal/families/domains"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/jsonscan/attack"
	store "waybill.dev/shared/store/domains"
)

// txt is a DNS with these records.
type txt []string

func (r txt) LookupTXT(context.Context, string) ([]string, error) { return r, nil }

// noted is the last answer that was to be kept.
type noted struct{ answer store.Answer }

func (*noted) ClaimChecks(context.Context, int) ([]domain.CustomDomain, error) { return nil, nil }

func (n *noted) NoteAnswer(_ context.Context, d domain.CustomDomain, answer store.Answer) (store.CheckResult, error) {
	n.answer = answer
	return store.CheckResult{Domain: d}, nil
}

// Whatever a name server answers, the token alone is the proof, and what is told of the rest is short, can be
// shown, and is no proof of another account.
func FuzzRecords(f *testing.F) {
	const own = domain.DomainProof + "k3yk3yk3yk3y"
	f.Add(own, "v=spf1 -all")
	f.Add("x"+own, strings.ToUpper(domain.DomainProof)+"other")
	f.Add("wayb"+own+"ill-verification=other", "\xff\x00\u202e\"\n<b>")
	f.Add(strings.Repeat("é", 80)+domain.DomainProof, strings.Repeat("\\", 4<<10))
	f.Fuzz(func(t *testing.T, first, second string) {
		d, kept := domain.CustomDomain{Hostname: "shop.example", Token: own}, &noted{}
		verifier := domains.NewVerifier(txt{first, second}, kept, "", func() {}, slog.New(slog.DiscardHandler))
		attack.Hold(t, len(first)+len(second), attack.Allowance{Times: 12}, func() {
			if _, err := verifier.Check(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		})
		if found := first == own || second == own; !kept.answer.Known || found != (len(kept.answer.Words) == 0) {
			t.Fatalf("%q and %q: %+v", first, second, kept.answer)
		}
		for _, words := range kept.answer.Words {
			if len(words) > 2<<10 || strings.ContainsFunc(words, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("words that can't be shown: %q", words)
			}
			if strings.Contains(strings.ReplaceAll(strings.ToLower(words), own, ""), domain.DomainProof) {
				t.Errorf("a proof of another account is shown: %s", words)
			}
		}
	})
}
