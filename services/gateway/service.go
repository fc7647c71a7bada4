package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/gateway/internal/hosts"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
)

// Store is what a gateway asks of the database.
type Store interface {
	Ping(ctx context.Context) error
}

// Bus is what a gateway asks of the bus.
type Bus interface {
	Ready() error
}

// Options of a gateway process; both are required.
type Options struct {
	Store Store
	Bus   Bus
}

// NewHandler returns what a gateway process answers on its HTTP address. The host of a
// request decides first; what is no site's gets the health of the process, else 404.
func NewHandler(o Options) http.Handler { return ByHost(nil, &own{o}) }

// ByHost lets the site that a request's Host names answer, and other all the rest. The
// names are in lower case, without port. Nothing else of a request is looked at before.
func ByHost(sites map[string]http.Handler, other http.Handler) http.Handler {
	return hosts.New(sites, other)
}

// own answers for the process itself.
type own struct{ Options }

// pingTime bounds the question whether the store is there: who asks for health wants to
// know about the process, and is in a hurry.
const pingTime = 500 * time.Millisecond

type healthView struct {
	Status string `json:"status"`
	Store  string `json:"store"`
	Bus    string `json:"bus"`
}

// ServeHTTP answers /healthz and /readyz. A gateway is ready as soon as it answers, and stays
// so while store or bus are away: what it serves needs neither of them.
func (o *own) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := requestid.Of(r.Header)
	header := w.Header()
	header.Set(requestid.Header, id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	var status string
	switch r.URL.Path {
	case "/healthz":
		status = "alive"
	case "/readyz":
		status = "ready"
	default:
		problem.New(problem.NotFound, "There is nothing at this path.").Write(w, r, id)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		problem.New(problem.MethodNotAllowed, "This resource does not know the method; see Allow.").Write(w, r, id)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTime)
	defer cancel()
	body, err := json.Marshal(healthView{status, state(o.Store.Ping(ctx)), state(o.Bus.Ready())})
	if err != nil {
		problem.New(problem.Internal, "Something went wrong on our side.").Write(w, r, id)
		return
	}
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func state(err error) string {
	if err != nil {
		return "down"
	}
	return "up"
}
