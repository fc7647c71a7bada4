package cli

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/verb"
)

// shortest is the minimum length of the beginning of an id.
const shortest = 4

// complement replaces beginnings of ids in the path by the whole ids, if exactly one thing has such an id. It
// searches the lists that are also used for completion.
func (act *action) complement(ctx context.Context, c *client.Client, whole *verb.Request) error {
	given := act.input.Args
	for i, typed := range given {
		arg := act.Args[i]
		if arg.List == "" || arg.ID != "id" || arg.Each != "" {
			continue
		}
		act.input.Args = given[:i]
		list, _, ok := act.Completion(act.input, "")
		act.input.Args = given
		if !ok {
			continue
		}
		id, err := act.whole(ctx, c, list, typed)
		if err != nil {
			return err
		}
		if id != typed {
			whole.Path = strings.Replace(whole.Path, "/"+url.PathEscape(typed), "/"+id, 1)
			given[i] = id
		}
	}
	return nil
}

// lengthen completes the ids for which the answer would not say that the thing does not exist. It reports whether
// there are any.
func (act *action) lengthen(ctx context.Context, c *client.Client) (bool, error) {
	beginnings := act.Beginnings(act.input)
	for _, beginning := range beginnings {
		id, err := act.whole(ctx, c, verb.ListOf(beginning.List), beginning.Text)
		if err != nil {
			return false, err
		}
		beginning.Put(id)
	}
	return len(beginnings) > 0, nil
}

// whole returns the id in a list that begins with the typed text, or the text itself if there is none. For a verb
// that changes something, it needs the whole list, because a second id with the same beginning could be on a later
// page.
func (act *action) whole(ctx context.Context, c *client.Client, list *verb.Request, typed string) (string, error) {
	if len(typed) < shortest {
		return typed, nil
	}
	var ids []string
	var cut bool
	verb.Narrow(list, typed)
	for more := true; more; {
		answer, err := act.send(ctx, c, list)
		if err != nil {
			return typed, nil //nolint:nilerr // a key that may not list takes whole ids alone
		}
		page := verb.Members(answer, "id")
		ids = append(ids, page...)
		more, cut = verb.Further(list, answer, len(page))
	}
	if slices.Contains(ids, typed) {
		return typed, nil
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, typed) })
	switch {
	case len(ids) == 0:
		return typed, nil
	case len(ids) > 1:
		return "", usagef("%s is the beginning of %s: %s", terminal.Clean(typed), many(len(ids), "id"), terminal.Clean(strings.Join(ids[:min(len(ids), 5)], ", ")))
	case cut && act.Method != http.MethodGet:
		return "", usagef("give the whole id: there are too many to be sure that one alone begins with %s", terminal.Clean(typed))
	}
	return ids[0], nil
}

// build is like whole, for the builds of a deployment.
func (act *action) build(ctx context.Context, c *client.Client, deployment, typed string) (string, error) {
	path := verb.Builds(deployment)
	if !verb.Short(path, typed) {
		return typed, nil
	}
	return act.whole(ctx, c, verb.ListOf(path), typed)
}
