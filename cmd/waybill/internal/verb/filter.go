package verb

import (
	"encoding/json"
	"errors"
	"net/http"
)

// noFilter is the value on the command line that removes the filter of a webhook.
const noFilter = "none"

// filterTest returns the verb that tries a filter on existing events.
func filterTest() Verb {
	return Verb{
		Name: "filter-test", Short: "Try a filter on the last events; nothing is sent",
		Long: "Tries a filter on the newest events of the webhook's types, and shows which\nmatch and which clause the others miss. Without --filter the webhook's own is\ntried.",
		Example: "  waybill webhooks filter-test 0198e5c2-…\n" +
			"  waybill webhooks filter-test 0198e5c2-… --filter filter.json --last 1000",
		Method: http.MethodPost, Path: webhooksPath + "/{id}/filter/test", Args: webhookArg(), Body: AnObject,
		Flags: []Flag{
			{Name: "filter", Usage: "the filter, a `FILE` with JSON, or -; none: all events match", In: InVerb},
			{Name: "last", Usage: "how many events; default 100, at most 1000", Kind: Integer, To: "lastEvents"},
		},
		Adjust: withFilter,
		Show: View{
			Columns: []Column{{Title: "MATCHED", Member: "matched"}, {Title: "MISSED", Member: "missed"}},
			Parts: []Part{{Title: "SAMPLES", Member: "samples", Columns: []Column{
				{Title: "EVENT", Member: "eventId"},
				{Title: "TYPE", Member: "type"},
				{Title: "MATCHES", Member: "matched", Form: YesNo},
				{Title: "MISSES", Member: "clause", Shrinks: true},
			}}},
		},
	}
}

// withData puts the data of a file into the body of a test.
func withData(r *Request, in *Input) error {
	file, given := in.Given("file")
	if !given {
		return nil
	}
	text, err := in.Read(file)
	if err != nil {
		return err
	}
	if !json.Valid(text) {
		return MisuseError{errors.New("the data are not valid JSON")}
	}
	if r.Body == nil {
		r.Body = []byte("{}")
	}
	return put(r, "data", json.RawMessage(text))
}

// withFilter puts the filter of a file into the body.
func withFilter(r *Request, in *Input) error {
	file, given := in.Given("filter")
	if !given {
		return nil
	}
	filter := json.RawMessage("null")
	if file != noFilter {
		text, err := in.Read(file)
		if err != nil {
			return err
		}
		if filter = text; !json.Valid(filter) {
			return MisuseError{errors.New("the filter is not valid JSON")}
		}
	}
	return put(r, "filter", filter)
}
