package problem

import (
	"strings"

	"waybill.dev/shared/domain"
)

// TypeBase is the beginning of the type of a problem, which ends with the code in lower case. The
// type is a reference to the page of the installation that explains the kind of problem, and is the
// same in all installations.
const TypeBase = "/problems/"

// Explanation explains a kind of problem to callers.
type Explanation struct {
	Code    Code
	Status  int
	Title   string
	Slug    string // the end of the problem's type
	Meaning string
	Advice  []string // what to do, the most likely first
	Example *Problem
	At      string // the path in the example
}

// Codes returns all codes, in the order of their statuses.
func Codes() []Code {
	return []Code{
		InvalidInput, Unauthenticated, Forbidden, NoSubscription, NotFound, MethodNotAllowed, RequestTimeout, Conflict, Gone, TooLarge, URITooLong,
		UnsupportedMediaType, Misdirected, RateLimited, QuotaExceeded, Internal, BadGateway, Unavailable, GatewayTimeout,
	}
}

// Explain returns the explanation of a kind by its code or the end of its type, in any case; ok is
// false when there is no such kind.
func Explain(name string) (e Explanation, ok bool) {
	slug := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	for _, code := range Codes() {
		if kind := kindOf(code); kind.slug == slug {
			e = explanation(code)
			e.Code, e.Status, e.Title, e.Slug = code, kind.status, kind.title, kind.slug
			return e, true
		}
	}
	return Explanation{}, false
}

// explanation returns the texts of a kind.
func explanation(code Code) Explanation {
	switch code {
	case InvalidInput:
		return Explanation{
			Meaning: "The request does not match the documentation. The body is not JSON, or a field is missing, unknown, given twice or of the wrong type, or a parameter is out of range. Nothing was done.",
			Advice: []string{
				"Look at errors. Each entry names one place (a JSON pointer into the body, a query parameter or a header) and says what is wrong there. The value itself is never repeated.",
				"Correct all of them and send the request again. The same request would fail again.",
			},
			Example: Invalid(Fault{Pointer: "/url", Detail: "is required"}, Fault{Pointer: "/events/0", Detail: "must be one of shipment.created, shipment.in_transit, shipment.delivered, shipment.exception"}),
			At:      "/v1/webhooks",
		}
	case Unauthenticated:
		return Explanation{
			Meaning: "The request has no API key, or its key is malformed, unknown, expired or revoked, or is not for this route. The answer does not say which of these it is.",
			Advice: []string{
				"Send the key as the header Authorization: Bearer, or as X-API-Key. If both are there, they must be the same.",
				"Check that the key is complete and belongs to this installation. GET /v1/who-am-i shows whose key it is.",
				"If it has expired, ask for a new key.",
			},
			Example: KeyRequired(), At: "/v1/webhooks",
		}
	case Forbidden:
		return Explanation{
			Meaning: "The key is valid, but it may not do this. It lacks the scope that the operation needs, or the request is about a consumer that has more scopes than the key.",
			Advice: []string{
				"Compare required with granted: the scopes that the operation needs, and those of the key. GET /v1/who-am-i shows which consumer the key belongs to.",
				"Ask somebody who has the scope to add it to the consumer, or use another key.",
			},
			Example: Lacking(string(domain.ScopeWebhooksWrite), Scopes{[]domain.Scope{domain.ScopeWebhooksWrite}, []domain.Scope{domain.ScopeWebhooksRead}}), At: "/v1/webhooks",
		}
	case NotFound:
		return Explanation{
			Meaning: "There is nothing at this address, or it belongs to another account. Both get the same answer.",
			Advice: []string{
				"Check the path and the ids in it. Check that the key belongs to the right account.",
				"Events and deliveries are kept for a limited time. After that they are deleted.",
			},
			Example: Missing(), At: "/v1/webhooks/0190c0f0-0000-7000-8000-000000000000",
		}
	case MethodNotAllowed:
		return Explanation{
			Meaning: "The address exists, but not with this method.",
			Advice:  []string{"The header Allow of the answer lists the methods that exist."},
			Example: New(MethodNotAllowed, "This resource does not know the method; see Allow."), At: "/v1/events",
		}
	}
	return ofBody(code)
}

// ofBody returns the texts of faults of a request beyond its form.
func ofBody(code Code) Explanation {
	switch code {
	case RequestTimeout:
		return Explanation{
			Meaning: "The body arrived too slowly, and the connection was closed. Nothing was done.",
			Advice: []string{
				"Send the same request again. Events with the same ids are accepted only once.",
				"Over a slow connection, send smaller batches.",
			},
			Example: New(RequestTimeout, "The body came too slowly: 4 KB a second are waited for, 60 seconds at most."), At: "/v1/events",
		}
	case Conflict:
		return Explanation{
			Meaning: "The request is valid, but it conflicts with the current state: a name is taken, or something has changed in between.",
			Advice:  []string{"Read the resource again. Then use another name, or apply your change to the current state."},
			Example: New(Conflict, "The request is at odds with the state of the resource."), At: "/v1/accounts/default/key-buckets",
		}
	case Gone:
		return Explanation{
			Meaning: "What comes after this cursor is not kept any more. The feed was not read for longer than events are kept, so events may have been missed.",
			Advice: []string{
				"Read the feed without a cursor. It begins at the oldest event that is kept.",
				"Read it more often than the retention, which is 7 days unless it was set otherwise.",
			},
			Example: New(Gone, "Events after this cursor are not kept any more. Without a cursor, the feed begins at the oldest that is kept."),
			At:      "/v1/webhooks/0190c0f0-0000-7000-8000-000000000000/feed",
		}
	case TooLarge:
		return Explanation{
			Meaning: "The body is too large. None of it was used.",
			Advice: []string{
				"Send less at a time. A batch may have 1,000 events and 8 MiB, one event 256 KiB, any other body 1 MiB.",
				"Store large content elsewhere, and put its address into the event.",
			},
			Example: New(TooLarge, "The body is too large."), At: "/v1/events",
		}
	case URITooLong:
		return Explanation{
			Meaning: "The URL that the route's back end would have been asked for is longer than 16 KiB. The back end was not asked.",
			Advice:  []string{"Send long values in the body of the request."},
			Example: New(URITooLong, "The URL is longer than is passed on to a back end."), At: "/orders",
		}
	case UnsupportedMediaType:
		return Explanation{
			Meaning: "The body is declared as something other than JSON in UTF-8, or it is compressed.",
			Advice:  []string{"Send it as Content-Type: application/json, without a Content-Encoding. With curl: -H 'Content-Type: application/json'."},
			Example: New(UnsupportedMediaType, "The body must be application/json in UTF-8."), At: "/v1/webhooks",
		}
	}
	return ofPlan(code)
}

// ofPlan returns the texts for what a plan does not allow.
func ofPlan(code Code) Explanation {
	switch code {
	case NoSubscription:
		return Explanation{
			Meaning: "The route is metered, and the key's consumer has no plan. This request was not carried out.",
			Advice:  []string{"Ask the operator of the API for a plan.", "Operators: give the consumer a plan with PUT …/consumers/{consumerName}/subscription."},
			Example: New(NoSubscription, "The consumer has no plan."), At: "/orders",
		}
	case QuotaExceeded:
		return Explanation{
			Meaning: "The consumer has used what its plan allows in this period. This request was not carried out, and does not count.",
			Advice: []string{
				"Wait for as many seconds as Retry-After says: the next period begins then.",
				"Ask the operator of the API for a larger plan. It holds within a second.",
			},
			Example: New(QuotaExceeded, "The quota of this period is used up."), At: "/orders",
		}
	}
	return ofServer(code)
}

// ofServer returns the texts for reasons for which the server can't answer.
func ofServer(code Code) Explanation {
	switch code {
	case RateLimited:
		return Explanation{
			Meaning: "This account, or all callers of this route, sent too many requests in a short time. This request was not carried out.",
			Advice: []string{
				"Wait for as many seconds as Retry-After says, then send the same request again.",
				"The headers RateLimit-Limit, -Remaining and -Reset say how much is left. A batch counts as many as it has events.",
			},
			Example: New(RateLimited, "Too many requests of this account."), At: "/v1/events",
		}
	case Misdirected:
		return Explanation{
			Meaning: "The TLS connection was opened for a host of another account than that of the request.",
			Advice: []string{
				"Open a connection for the host of the request. Browsers and most clients do so by themselves.",
				"If you set the Host header yourself, give the same name to TLS: in curl, use --resolve or --connect-to, and no Host header.",
			},
			Example: New(Misdirected, "The TLS connection is for another host. Open one for the host of the request."), At: "/orders/4711",
		}
	case BadGateway:
		return Explanation{
			Meaning: "The back end of this route can't be reached, or its answer can't be passed on. The request may have reached the back end.",
			Advice: []string{
				"Try again after a while, if the request may be repeated.",
				"Operators: look for the requestId in the log, which has the reason.",
			},
			Example: New(BadGateway, "The back end can't be reached."), At: "/orders/4711",
		}
	case Unavailable:
		return Explanation{
			Meaning: "Something that this request needs can't be reached now, most often the database, or the server is too busy. Events that were accepted before are safe.",
			Advice: []string{
				"Wait for as many seconds as Retry-After says, then send the same request again. Events with the same ids are accepted only once, however often you send them.",
				"Operators: /readyz says what is missing.",
			},
			Example: New(Unavailable, "The store can't be reached now. Try again, with the same ids."), At: "/v1/events",
		}
	case GatewayTimeout:
		return Explanation{
			Meaning: "This route did not get an answer in time. The request may have reached the back end.",
			Advice:  []string{"Try again after a while, if the request may be repeated.", "Operators: timeoutSeconds of the route says how long it may take."},
			Example: New(GatewayTimeout, "The back end did not answer in time."), At: "/orders/4711",
		}
	}
	return Explanation{
		Meaning: "The server has a fault. The request is not the cause. It may or may not have been carried out.",
		Advice: []string{
			"Try again after a while. Events with the same ids are accepted only once.",
			"Give the requestId to whoever runs this installation. The log says what happened.",
		},
		Example: New(Internal, "Something went wrong on our side."), At: "/v1/webhooks",
	}
}
