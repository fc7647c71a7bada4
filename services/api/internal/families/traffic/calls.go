package traffic

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/traffic"
)

// Bounds of requests and answers.
const (
	maxConsumers    = 100
	maxConsumerName = 256
	maxRecent       = 1000
	defaultRecent   = 20
	recentTime      = 24 * time.Hour
	maxCounts       = 20_000
)

// Call is one of the newest requests.
type Call struct {
	Consumer   string  `json:"consumer"`
	Method     string  `json:"method"`
	RoutePath  string  `json:"routePath"`
	StatusCode string  `json:"statusCode"`
	TimeStamp  *string `json:"timeStamp"`
	City       string  `json:"city"`    // not known; readers expect the member
	Country    string  `json:"country"` // not known; readers expect the member
}

// Data is an answer with no other members.
type Data[V any] struct {
	Data V `json:"data"`
}

func (h *handlers) recent(c *web.Call) error {
	q := c.Query()
	limit, consumers := q.Integer("limit", 1, maxRecent, defaultRecent), readConsumers(q)
	deployment, err := h.deployment(c)
	if err != nil {
		return err
	}
	requests, err := h.traffic.RecentCalls(c.Context(), deployment, time.Now().Add(-recentTime), consumers, limit)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, Data[[]Call]{web.Views(requests, func(r traffic.Request) Call {
		return Call{Consumer: r.Consumer, Method: r.Method, RoutePath: r.RoutePath, StatusCode: strconv.Itoa(r.Status), TimeStamp: web.Stamp(r.At)}
	})})
}

func readConsumers(q *input.Query) []string {
	return q.Texts("consumers", maxConsumers, maxConsumerName)
}

// window is a time up to now that calls are counted in.
type window string

const (
	lastHour   window = "last-hour"
	lastDay    window = "last-24-hours"
	lastWeek   window = "last-7-days"
	lastMonth  window = "last-30-days"
	lastMonths window = "last-3-months"
)

// bounds returns the length of a window's steps, and its beginning.
func (w window) bounds(now time.Time) (step traffic.Step, since time.Time) {
	switch w {
	case lastHour:
		return traffic.Minute1, now.Add(-time.Hour)
	case lastDay:
		return traffic.Hour1, now.Add(-24 * time.Hour)
	case lastWeek:
		return traffic.Hour1, now.AddDate(0, 0, -7)
	case lastMonth:
		return traffic.Day1, now.AddDate(0, 0, -30)
	}
	return traffic.Day1, now.AddDate(0, -3, 0)
}

// StatusCalls are the requests with a status.
type StatusCalls struct {
	StatusCode int   `json:"statusCode"`
	Calls      int64 `json:"calls"`
}

// Calls are the requests of a consumer.
type Calls struct {
	Consumer          string        `json:"consumer"`
	TotalCalls        int64         `json:"totalCalls"`
	CallsByStatusCode []StatusCalls `json:"callsByStatusCode"`
}

// add counts calls with a status.
func (v *Calls) add(status int, calls int64) {
	v.TotalCalls += calls
	at, there := slices.BinarySearchFunc(v.CallsByStatusCode, status, func(s StatusCalls, status int) int { return s.StatusCode - status })
	if !there {
		v.CallsByStatusCode = slices.Insert(v.CallsByStatusCode, at, StatusCalls{StatusCode: status})
	}
	v.CallsByStatusCode[at].Calls += calls
}

// Step is the number of requests in a step of time.
type Step struct {
	Calls

	TimeStamp *string `json:"timeStamp"`
}

// Statistics are the numbers of requests, in total and by steps of time.
type Statistics struct {
	Stats   []Calls `json:"stats"`
	Details []Step  `json:"details"`
}

func (h *handlers) statistics(c *web.Call) error {
	q := c.Query()
	filter := input.OneOf(q, "filter", []window{lastHour, lastDay, lastWeek, lastMonth, lastMonths})
	if _, given := q.Text("filter"); !given {
		q.Fault("filter", "is required")
	}
	consumers := readConsumers(q)
	deployment, err := h.deployment(c)
	if err != nil {
		return err
	}
	step, since := filter.bounds(time.Now())
	counts, err := h.traffic.CallCounts(c.Context(), deployment, step, since, consumers, maxCounts)
	if errors.Is(err, domain.ErrLimit) {
		return problem.Invalid(problem.Fault{
			Parameter: "consumers",
			Detail:    fmt.Sprintf("leaves more than %d counts: name fewer consumers, or take a shorter time", maxCounts),
		})
	}
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, Data[Statistics]{sum(counts)})
}

// sum adds up counts, which are in the order of time and then of consumers.
func sum(counts []traffic.Count) Statistics {
	v := Statistics{Stats: []Calls{}, Details: []Step{}}
	places := map[string]int{}
	var last traffic.Count
	for _, count := range counts {
		at, there := places[count.Consumer]
		if !there {
			at = len(v.Stats)
			places[count.Consumer] = at
			v.Stats = append(v.Stats, Calls{Consumer: count.Consumer})
		}
		v.Stats[at].add(count.Status, count.Calls.Calls)
		if len(v.Details) == 0 || !count.Start.Equal(last.Start) || count.Consumer != last.Consumer {
			v.Details = append(v.Details, Step{Calls{Consumer: count.Consumer}, web.Stamp(count.Start)})
		}
		v.Details[len(v.Details)-1].add(count.Status, count.Calls.Calls)
		last = count
	}
	slices.SortFunc(v.Stats, func(a, b Calls) int { return strings.Compare(a.Consumer, b.Consumer) })
	return v
}
