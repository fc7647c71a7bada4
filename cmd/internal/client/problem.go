package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"waybill.dev/cmd/internal/terminal"
)

// Problem is an error answer of the API.
type Problem struct {
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	RequestID string `json:"requestId"`
	Errors    []struct {
		Pointer   string `json:"pointer"`
		Parameter string `json:"parameter"`
		Detail    string `json:"detail"`
	} `json:"errors"`

	retryAfter string
	access     Access
}

// problemOf reads an error answer; nil: it is not a problem document.
func (c *Client) problemOf(a Answer) *Problem {
	problem := &Problem{}
	readable := json.Unmarshal(a.Body, problem) == nil
	if !readable || problem.Code == "" || problem.Status != 0 && problem.Status != a.Status {
		return nil
	}
	problem.Status = a.Status
	problem.retryAfter, problem.access = a.Header.Get("Retry-After"), c.Access
	return problem
}

// IsStatus reports whether err is the API's answer with that status.
func IsStatus(err error, status int) bool {
	problem, ok := errors.AsType[*Problem](err)
	return ok && problem.Status == status
}

// Error returns one sentence, a line for each fault, and advice if there is some.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the API answers %d", p.Status)
	if p.Code != "" {
		fmt.Fprintf(&b, " %s", terminal.Clean(p.Code))
	}
	if p.Detail != "" {
		fmt.Fprintf(&b, ": %s", terminal.Clean(p.Detail))
	}
	for _, e := range p.Errors {
		at := cmp.Or(e.Pointer+e.Parameter, "body")
		fmt.Fprintf(&b, "\n  %s: %s", terminal.Clean(at), terminal.Clean(e.Detail))
	}
	if hint := p.hint(); hint != "" {
		fmt.Fprintf(&b, "\n  %s", hint)
	}
	return b.String()
}

func (p *Problem) hint() string {
	switch {
	case p.Status == http.StatusUnauthorized:
		hint := "Give the API key with --key or WAYBILL_KEY, or the data directory of `waybill dev` with --data."
		if p.access.From != "" {
			hint = "The key was taken from " + p.access.From + ".\n  " + hint
		}
		if p.access.Hint != "" {
			hint += "\n  " + p.access.Hint
		}
		return hint
	case p.retryAfter != "":
		return "Try again after " + terminal.Clean(p.retryAfter) + " s."
	case p.Status >= http.StatusInternalServerError && p.RequestID != "":
		return "The server's log has more under request " + terminal.Clean(p.RequestID) + "."
	}
	return ""
}
