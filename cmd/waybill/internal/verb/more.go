package verb

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// Members that tables have and the API's lists do not.
const (
	hostMember   = "(host)"
	answerMember = "(answer)"
	stateMember  = "(state)"
)

// Most is how many things of a list one answer has at most.
const Most = 1000

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

// hostsOf returns, by webhook id, the hosts of the webhooks that the rows name.
func hostsOf(ask Ask, rows []map[string]any) map[string]string {
	hosts := make(map[string]string)
	wanted := make(map[string]bool)
	for _, row := range rows {
		if id, ok := row["webhookId"].(string); ok {
			wanted[id] = true
		}
	}
	for offset := 0; len(wanted) > 0; {
		page := read[[]struct{ ID, URL string }](ask, fmt.Sprintf("%s?limit=%d&offset=%d", webhooksPath, Most, offset))
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

// stateOfWebhooks adds the state of each webhook from its health, the reason why it is inactive, and the
// number of waiting deliveries.
func stateOfWebhooks(_ Ask, rows []map[string]any) {
	for _, row := range rows {
		var words []string
		health, _ := row["health"].(members)
		state, _ := health["state"].(string)
		switch reason, off := row["disabledReason"].(string); {
		case off:
			words = append(words, "inactive: "+reason)
		case state == "circuitOpen":
			words = append(words, "circuit open")
		case state != "":
			words = append(words, state)
		}
		problem, _ := health["problem"].(members)
		if quiet, _ := problem["quiet"].(bool); quiet {
			words = append(words, "acknowledged")
		}
		if fault, _ := row["fault"].(string); fault != "" {
			words = append(words, "can't be read")
		}
		for _, of := range []struct{ member, word string }{{"waiting", "waiting"}, {"held", "held"}, {"scheduled", "scheduled"}} {
			if n, _ := health[of.member].(json.Number); n != "" && n != "0" {
				words = append(words, n.String()+" "+of.word)
			}
		}
		if len(words) > 0 {
			row[stateMember] = strings.Join(words, ", ")
		}
	}
}

// read reads JSON; on a failure the answer is empty.
func read[T any](ask Ask, path string) (answer T) {
	text, err := ask(path)
	if err != nil || json.Unmarshal(text, &answer) != nil {
		var none T
		return none
	}
	return answer
}
