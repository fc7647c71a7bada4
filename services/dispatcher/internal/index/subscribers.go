package index

import (
	"sync"

	"waybill.dev/shared/filter"
)

// subscribers are the webhooks of an account that are registered for a type. They never
// change.
type subscribers struct {
	hooks  []*Hook
	choose func() *chooser // made for the first event; nil: no webhook has a filter
	costly bool            // choose may take long
}

// costlyFrom is how many bytes of filters are checked on the path that the events of all accounts
// take: as many as one filter may have. If an account has more, its events are handled apart. The
// bytes bound the clauses and the values, however they are written.
const costlyFrom = filter.MaxSize

func newSubscribers(hooks []*Hook) *subscribers {
	s := &subscribers{hooks: hooks}
	var filters []*filter.Filter
	bytes := 0
	for i, hook := range hooks {
		config := hook.Config()
		if f := config.Filter; f != nil {
			bytes += len(config.Webhook.Filter)
			if filters == nil {
				filters = make([]*filter.Filter, len(hooks))
			}
			filters[i] = f
		}
	}
	s.costly = bytes > costlyFrom
	if filters != nil {
		s.choose = sync.OnceValue(func() *chooser { return newChooser(hooks, filters) })
	}
	return s
}

// matching returns the webhooks that an event goes to.
func (s *subscribers) matching(payload []byte) []*Hook {
	if s.choose == nil {
		return s.hooks
	}
	return s.choose().choose(payload)
}
