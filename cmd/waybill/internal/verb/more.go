package verb

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Members that tables have and the API's lists do not.
const (
	hostMember   = "(host)"
	answerMember = "(answer)"
	stateMember  = "(state)"
)

const most = 1000 // of a list

// hostsAndAnswers puts the webhook's host and the last answer into rows of deliveries.
func hostsAndAnswers(ask Ask, rows []map[string]any) {
	hosts := hostsOf(ask, rows)
	for _, row := range rows {
		if host := hosts[fmt.Sprint(row["webhookId"])]; host != "" {
			row[hostMember] = host
		}
		if code, ok := row["statusCode"].(json.Number); ok {
			row[answerMember] = code.String()
		} else if class, ok := row["class"].(string); ok {
			row[answerMember] = class
		}
	}
}

// hostsOf returns the hosts of the account's webhooks by id, if any row has one.
func hostsOf(ask Ask, rows []map[string]any) map[string]string {
	hosts := make(map[string]string)
	wanted := make(map[string]bool)
	for _, row := range rows {
		if id, ok := row["webhookId"].(string); ok {
			wanted[id] = true
		}
	}
	for offset := 0; len(wanted) > 0; {
		page := read[[]struct{ ID, URL string }](ask, fmt.Sprintf("%s?limit=%d&offset=%d", webhooksPath, most, offset))
		if len(page) == 0 {
			break
		}
		offset += len(page)
		for _, webhook := range page {
			if u, err := url.Parse(webhook.URL); err == nil && wanted[webhook.ID] {
				hosts[webhook.ID] = u.Host
				delete(wanted, webhook.ID)
			}
		}
	}
	return hosts
}

// stateOfWebhooks says of each webhook why it is off, how much is held for it, and whether
// its circuit is open, as far as deliveries show.
func stateOfWebhooks(ask Ask, rows []map[string]any) {
	held := countDeliveries(ask, "held", func(string) bool { return true })
	waiting := countDeliveries(ask, "retrying", func(reason string) bool { return reason == "circuitOpen" })
	for _, row := range rows {
		id := fmt.Sprint(row["id"])
		var words []string
		if reason, ok := row["disabledReason"].(string); ok {
			words = append(words, reason)
		}
		if fault, _ := row["fault"].(string); fault != "" {
			words = append(words, "can't be read")
		}
		if n := held.of[id]; n > 0 {
			words = append(words, held.many(n)+" held")
		}
		if n := waiting.of[id]; n > 0 {
			words = append(words, "circuit open: "+waiting.many(n)+" wait")
		}
		if active, _ := row["active"].(bool); active && len(words) == 0 {
			words = append(words, "ok")
		}
		if len(words) > 0 {
			row[stateMember] = strings.Join(words, ", ")
		}
	}
}

// tally counts deliveries by webhook, in the newest of them.
type tally struct {
	of   map[string]int
	more bool // there are others that were not counted
}

func (t tally) many(n int) string {
	if t.more {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

func countDeliveries(ask Ask, status string, counts func(reason string) bool) tally {
	page := read[struct {
		Data       []struct{ WebhookID, Reason string }
		NextCursor string
	}](ask, fmt.Sprintf("%s?status=%s&limit=%d", deliveriesPath, status, most))
	t := tally{of: make(map[string]int), more: page.NextCursor != ""}
	for _, delivery := range page.Data {
		if counts(delivery.Reason) {
			t.of[delivery.WebhookID]++
		}
	}
	return t
}

// read asks for JSON; what can't be had is empty.
func read[T any](ask Ask, path string) (answer T) {
	text, err := ask(path)
	if err != nil || json.Unmarshal(text, &answer) != nil {
		var none T
		return none
	}
	return answer
}
