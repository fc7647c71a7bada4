package verb

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

// shortID is the minimum length of an id in a list on a terminal: of a UUID, its time to the millisecond, so that hardly
// any other id has the same beginning.
const shortID = 13

// deliveryID is the length of a delivery's id.
const deliveryID = 22

// Short reports whether a text is too short for an id of a list's things.
func Short(list, text string) bool {
	if list == deliveriesPath {
		return len(text) < deliveryID
	}
	return len(text) < len("01999c2e-0000-7000-8000-000000000000")
}

// Beginning is a text that was given for an id and is too short for one.
type Beginning struct {
	List string // path of the list of the things with such ids
	Text string
	Put  func(id string)
}

// Beginnings returns the parts of the input that must be completed to whole ids before they are sent, because no answer
// would say that the thing does not exist.
func (v Verb) Beginnings(in *Input) []Beginning {
	var list []Beginning
	for i, arg := range v.Args[:len(in.Args)] {
		if text := in.Args[i]; arg.Whole && Short(arg.List, text) {
			list = append(list, Beginning{List: arg.List, Text: text, Put: func(id string) { in.Args[i] = id }})
		}
	}
	for _, value := range in.Values {
		if text := value.text; value.set && value.flag.List != "" && Short(value.flag.List, text) {
			list = append(list, Beginning{List: value.flag.List, Text: text, Put: func(id string) { _ = value.Set(id) }}) // any text is a value
		}
	}
	return list
}

// Narrow restricts the request of a list to things whose ids may begin with the text: the id of a delivery begins with a
// time.
func Narrow(r *Request, text string) {
	r.Query = url.Values{"limit": {strconv.Itoa(Most)}}
	rest := deliveryID - len(text)
	if r.Path != deliveriesPath || rest < 0 {
		return
	}
	if first, ok := domain.DeliveryID(text + strings.Repeat("0", rest)).ReceivedAt(); ok {
		r.Query.Set("since", first.Format(stamp))
	}
	if last, ok := domain.DeliveryID(text + strings.Repeat("z", rest)).ReceivedAt(); ok {
		r.Query.Set("until", last.Add(time.Millisecond).Format(stamp))
	}
}

// Further changes the request to ask for the page after the answer, which had things entries. more is false when there
// is none. A list with a cursor may have no end to wait for: cut says that such a list continues.
func Further(r *Request, answer []byte, things int) (more, cut bool) {
	tree, err := decode(answer)
	if err != nil {
		return false, false
	}
	offset, _ := strconv.Atoi(r.Query.Get("offset")) // a missing offset is 0
	offset += things
	r.Query.Set("offset", strconv.Itoa(offset))
	if _, bare := tree.([]any); bare {
		return things >= Most || len(answer) > 1<<20, false // a page ends at 4 MiB
	}
	page := pageOf(tree, things)
	return things > 0 && offset < page.Total, page.NextCursor != ""
}

// ListOf returns the request for the list at a path.
func ListOf(path string) *Request { return &Request{Method: http.MethodGet, Path: path} }

// shorten cuts ids to the length that distinguishes them.
func shorten(ids []string) {
	length := shortID
	sorted := slices.Sorted(slices.Values(ids))
	for i, id := range sorted[:max(len(sorted)-1, 0)] {
		next, common := sorted[i+1], 0
		for common < len(id) && common < len(next) && id[common] == next[common] {
			common++
		}
		if id != next {
			length = max(length, common+1)
		}
	}
	for i, id := range ids {
		ids[i] = id[:min(len(id), length)]
	}
}
