package problem

import "strings"

// TypeBase begins the reference that names a kind of problem, its type; it ends with the
// code in lower case. It leads to the page of the installation that explains the kind, and
// is the same in all of them.
const TypeBase = "/problems/"

// Explanation says what a kind of problem means to whoever meets it.
type Explanation struct {
	Code    Code
	Status  int
	Title   string
	Slug    string // the end of its type
	Meaning string
	Advice  []string // what to do, the likeliest first
	Example *Problem
	At      string // the path at which the example happened
}

// Codes returns every kind, in the order of their statuses.
func Codes() []Code {
	return []Code{
		InvalidInput, Unauthenticated, Forbidden, NotFound, MethodNotAllowed, RequestTimeout, Conflict, TooLarge,
		UnsupportedMediaType, RateLimited, Internal, BadGateway, Unavailable, GatewayTimeout,
	}
}

// Explain returns the explanation of a kind by its code or the end of its type, in any case;
// ok is false when there is no such kind.
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

// explanation has the texts of a kind.
func explanation(code Code) Explanation {
	switch code {
	case InvalidInput:
		return Explanation{
			Meaning: "Something in the request is not as it is documented: the body is not JSON, a field is missing, unknown, given twice or of the wrong type, or a parameter is out of its range. Nothing was done.",
			Advice: []string{
				"Look at errors: each entry names one place, as a JSON pointer into the body, a query parameter or a header, and says what is wrong there. The value itself is never repeated.",
				"Correct every one of them and send the request again. Sent as it is, it will fail again.",
			},
			Example: Invalid(Fault{Pointer: "/url", Detail: "is required"}, Fault{Pointer: "/events/0", Detail: "must be one of shipment.created, shipment.in_transit, shipment.delivered, shipment.exception"}),
			At:      "/v1/webhooks",
		}
	case Unauthenticated:
		return Explanation{
			Meaning: "The request has no API key, or one that is malformed, unknown, expired or revoked, or not for this route. Which of them is not told.",
			Advice: []string{
				"Send the key as the header Authorization: Bearer, or as X-API-Key. If both are there, they must be the same.",
				"Check that the key is whole and that it is of this installation. GET /v1/who-am-i shows whose key it is.",
				"If it has expired, have a new one made in its bucket.",
			},
			Example: KeyRequired(), At: "/v1/webhooks",
		}
	case Forbidden:
		return Explanation{
			Meaning: "The key is good, but may not do this: it lacks the scope that the operation asks for, or the consumer that is concerned has more scopes than the caller.",
			Advice: []string{
				"GET /v1/who-am-i shows the key's scopes; the operation's scope is in the API's document.",
				"Have the scope added to the consumer by somebody who has it, or use another key.",
			},
			Example: New(Forbidden, "The key lacks the permission for this."), At: "/v1/webhooks",
		}
	case NotFound:
		return Explanation{
			Meaning: "There is nothing at this address, or it belongs to another account: both are answered alike.",
			Advice: []string{
				"Check the path and the ids in it, and that the key is one of the right account.",
				"Events and deliveries are kept for a limited time; after it they are gone.",
			},
			Example: Missing(), At: "/v1/webhooks/0190c0f0-0000-7000-8000-000000000000",
		}
	case MethodNotAllowed:
		return Explanation{
			Meaning: "The address exists, but not with this method.",
			Advice:  []string{"The header Allow of the answer names the methods that there are."},
			Example: New(MethodNotAllowed, "This resource does not know the method; see Allow."), At: "/v1/events",
		}
	}
	return ofBody(code)
}

// ofBody has the texts of what can be wrong with a request beyond its form.
func ofBody(code Code) Explanation {
	switch code {
	case RequestTimeout:
		return Explanation{
			Meaning: "The body came more slowly than is waited for, and the connection was closed. Nothing was done.",
			Advice: []string{
				"Send the same request again. Events with the same ids are taken once.",
				"Over a slow line, send less at a time: smaller batches.",
			},
			Example: New(RequestTimeout, "The body came too slowly: 4 KB a second are waited for, 60 seconds at most."), At: "/v1/events",
		}
	case Conflict:
		return Explanation{
			Meaning: "The request is fine in itself, but at odds with what is there: a name is taken, or something changed in between.",
			Advice:  []string{"Read the resource anew, then decide: another name, or the change on top of what is there now."},
			Example: New(Conflict, "The request is at odds with the state of the resource."), At: "/v1/accounts/default/key-buckets",
		}
	case TooLarge:
		return Explanation{
			Meaning: "The body is larger than is taken. Nothing of it was used.",
			Advice: []string{
				"Send less at a time: a batch may have 1,000 events and 8 MiB, one event 256 KiB, anything else 1 MiB.",
				"Put large contents elsewhere, and their address into the event.",
			},
			Example: New(TooLarge, "The body is too large."), At: "/v1/events",
		}
	case UnsupportedMediaType:
		return Explanation{
			Meaning: "The body is declared as something other than JSON in UTF-8, or it is compressed.",
			Advice:  []string{"Send it as Content-Type: application/json, without a Content-Encoding. With curl: -H 'Content-Type: application/json'."},
			Example: New(UnsupportedMediaType, "The body must be application/json in UTF-8."), At: "/v1/webhooks",
		}
	}
	return ofServer(code)
}

// ofServer has the texts of what keeps the server from answering.
func ofServer(code Code) Explanation {
	switch code {
	case RateLimited:
		return Explanation{
			Meaning: "Too many requests have come in a short time, of this account or to this route. This one was not carried out.",
			Advice: []string{
				"Wait for as many seconds as Retry-After says, then send the same request again.",
				"The headers RateLimit-Limit, -Remaining and -Reset tell how much is left. A batch counts by its events.",
			},
			Example: New(RateLimited, "Too many requests of this account."), At: "/v1/events",
		}
	case BadGateway:
		return Explanation{
			Meaning: "A route of this gateway asked its back end, which can't be reached or gave an answer that can't be passed on. The request may have reached the back end.",
			Advice: []string{
				"Try again after a while, if the request may be repeated.",
				"Operators: the log has the reason, by the requestId.",
			},
			Example: New(BadGateway, "The back end can't be reached."), At: "/orders/4711",
		}
	case Unavailable:
		return Explanation{
			Meaning: "Something that is needed for this, most often the database, can't be reached now, or there is too much to do. What was accepted before is safe.",
			Advice: []string{
				"Wait for as many seconds as Retry-After says, then send the same request again. Events with the same ids are taken once, however often they are sent.",
				"Operators: /readyz says what is missing.",
			},
			Example: New(Unavailable, "The store can't be reached now. Try again, with the same ids."), At: "/v1/events",
		}
	case GatewayTimeout:
		return Explanation{
			Meaning: "A route of this gateway did not get its answer in time. The request may have reached the back end.",
			Advice:  []string{"Try again after a while, if the request may be repeated.", "Operators: timeoutSeconds of the route says how long it may take."},
			Example: New(GatewayTimeout, "The back end did not answer in time."), At: "/orders/4711",
		}
	}
	return Explanation{
		Meaning: "Something is wrong with the server, not with the request. Nobody knows whether the request was carried out.",
		Advice: []string{
			"Try again after a while; events with the same ids are taken once.",
			"Tell whoever runs this installation the requestId: the log has what happened.",
		},
		Example: New(Internal, "Something went wrong on our side."), At: "/v1/webhooks",
	}
}
