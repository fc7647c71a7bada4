package cli

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/console"
	"waybill.dev/cmd/waybill/internal/verb"
)

const (
	// shortest is how many characters of an id must be given.
	shortest = 4
	// searched is how many of a list are looked through for an id, in pages of that many at most.
	searched = 1000
)

// complement replaces beginnings of ids by the ids, where one thing alone has such an id. The lists that are
// completed from are looked through. What changes something needs the whole list, as another id that
// begins so could be behind its end.
func (act *action) complement(ctx context.Context, c *client.Client, whole *verb.Request) error {
	given := act.input.Args
	for i, typed := range given {
		arg := act.Args[i]
		if arg.List == "" || arg.ID != "id" || arg.Each != "" || len(typed) < shortest {
			continue
		}
		act.input.Args = given[:i]
		request, _, ok := act.Completion(act.input, "")
		act.input.Args = given
		if !ok {
			continue
		}
		request.Query = map[string][]string{"limit": {strconv.Itoa(searched)}}
		answer, err := act.send(ctx, c, request)
		if err != nil {
			return nil //nolint:nilerr // who may not list gives whole ids
		}
		ids := verb.Members(answer, arg.ID)
		if slices.Contains(ids, typed) {
			continue
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, typed) })
		switch {
		case len(ids) > 1:
			return usagef("%s is the beginning of %s: %s", console.Clean(typed), many(len(ids), "id"), console.Clean(strings.Join(ids[:min(len(ids), 5)], ", ")))
		case len(ids) == 1 && act.Method != http.MethodGet && len(verb.Members(answer, arg.ID)) >= searched:
			return usagef("give the whole id: there are too many to be sure that one alone begins with %s", console.Clean(typed))
		case len(ids) == 1:
			whole.Path = strings.Replace(whole.Path, "/"+url.PathEscape(typed), "/"+ids[0], 1)
			given[i] = ids[0]
		}
	}
	return nil
}
