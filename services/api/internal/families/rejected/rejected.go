// Package rejected lists messages on the bus that were not valid events.
package rejected

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

const defaultPage = 100

// Accounts has the account of the caller.
type Accounts interface {
	GetAccount(ctx context.Context, name string) (domain.Account, error)
}

// Bus keeps the messages.
type Bus interface {
	Ready() error
	ListRejected(ctx context.Context, account string, since time.Time, limit int, before uint64) ([]bus.RejectedMessage, uint64, error)
}

// Routes returns the operation.
func Routes(accounts Accounts, messages Bus) []web.Route {
	h := &handlers{accounts, messages}
	return []web.Route{{
		Method: http.MethodGet, Path: "/v1/rejected", Operation: "listRejected",
		Scope: domain.ScopeEventsRead, Handle: h.list,
	}}
}

type handlers struct {
	accounts Accounts
	bus      Bus
}

// Message is a bus message that was no event. A body that is no UTF-8 is shown in
// base64.
type Message struct {
	Subject      string  `json:"subject"`
	Time         *string `json:"time"`
	Reason       string  `json:"reason"`
	Body         string  `json:"body"`
	BodyEncoding string  `json:"bodyEncoding"`
}

func view(m bus.RejectedMessage) Message {
	v := Message{Subject: m.Subject, Time: web.Stamp(m.Time), Reason: m.Reason, Body: string(m.Body), BodyEncoding: "text"}
	if !utf8.Valid(m.Body) {
		v.Body, v.BodyEncoding = base64.StdEncoding.EncodeToString(m.Body), "base64"
	}
	return v
}

// away is the answer while the bus can't be asked.
const away = "The bus, which keeps the rejected messages, can't be reached now."

func (h *handlers) list(c *web.Call) error {
	q := c.Query()
	limit := q.Integer("limit", 1, web.MaxPage, defaultPage)
	var before uint64
	if cursor, ok := q.Text("cursor"); ok {
		var err error
		if before, err = strconv.ParseUint(cursor, 10, 63); err != nil || before == 0 {
			q.Fault("cursor", web.BadCursor)
		}
	}
	if err := c.Check(); err != nil {
		return err
	}
	if h.bus.Ready() != nil {
		return web.Unavailable(away)
	}
	// An account must not see messages that were published under its name before it existed.
	account, err := h.accounts.GetAccount(c.Context(), c.Principal.Account)
	if err != nil {
		return err
	}
	messages, next, err := h.bus.ListRejected(c.Context(), account.Name, account.CreatedOn, limit, before)
	if errors.Is(err, domain.ErrUnavailable) {
		return web.Unavailable(away)
	}
	if err != nil {
		return err
	}
	page := web.CursorPage[Message]{Data: web.Views(messages, view)}
	if next > 0 {
		page.NextCursor = web.Optional(strconv.FormatUint(next, 10))
	}
	return c.Answer(http.StatusOK, page)
}
