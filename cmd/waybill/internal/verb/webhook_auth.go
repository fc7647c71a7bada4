package verb

import (
	"encoding/json"
	"fmt"
)

// authFlag is the flag for the file with a webhook's authentication. Secrets are never flags,
// because other users of the machine can see flags.
const authFlag = "auth-file"

func webhookAuth() Flag {
	return Flag{
		Name: authFlag, In: InVerb,
		Usage: "`file` with how callbacks are authenticated at the receiver, as JSON; -: standard input; none: not at all",
	}
}

// withAuth puts the file's object into the body.
func withAuth(r *Request, in *Input) error {
	name, given := in.Given(authFlag)
	if !given {
		return nil
	}
	auth := json.RawMessage("null")
	if name != "none" {
		text, err := in.Read(name)
		if err != nil {
			return err
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(text, &members) != nil || members == nil {
			return misusef(`--%s must name a file with a JSON object such as {"type":"bearer","token":"…"}`, authFlag)
		}
		auth = text
	}
	return put(r, "auth", auth)
}

// put sets a member of the request's body.
func put(r *Request, member string, value json.RawMessage) error {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	body[member] = value
	var err error
	if r.Body, err = json.Marshal(body); err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return nil
}

// webhookFiles puts those settings of a webhook that are given as files into the body.
func webhookFiles(r *Request, in *Input) error {
	if err := withAuth(r, in); err != nil {
		return err
	}
	return withFilter(r, in)
}

// newWebhook completes a registration.
func newWebhook(r *Request, in *Input) error {
	if err := allEvents(r, in); err != nil {
		return err
	}
	return webhookFiles(r, in)
}
