package verb

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// maxKeys bounds the keys that one command makes.
const maxKeys = 1000

func keyColumns() []Column {
	return []Column{
		{Title: "ID", Member: "id", Form: Ident},
		{Title: "KEY", Member: "key"},
		{Title: "EXPIRES", Member: "expiresOn", Form: Moment, Null: "never", Spare: true},
		describedAs(),
		{Title: "CREATED", Member: "createdOn", Form: Moment, Wide: true},
		{Title: "UPDATED", Member: "updatedOn", Form: Moment, Wide: true},
	}
}

func expiring(usage string) []Flag {
	return []Flag{{Name: "expires", Usage: usage, Kind: Future, To: "expiresOn"}}
}

func keys() Noun {
	view := View{None: "The consumer has no keys.", Columns: keyColumns()}
	path, all := consumerPath+"/keys", []Arg{bucketArg(), consumerArg()}
	one := []Arg{bucketArg(), consumerArg(), keyArg()}
	return Noun{
		Name: "keys", Short: "List, make, change, roll and delete API keys",
		Long: "A key may do what its consumer's scopes allow. Lists show the last eight\ncharacters of each key.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the keys of a consumer",
				Example: "  waybill keys list partners acme\n  waybill keys list partners acme --key-format visible",
				Method:  http.MethodGet, Path: path, Args: all, Flags: concat(keyFormat(), onlyIf(), paging()), Show: view,
			},
			{
				Name: "create", Short: "Make a key, or several",
				Long: "Makes a key and prints it, this one time. With --count it makes several, all or\nnone.",
				Example: "  waybill keys create partners acme --expires 720h\n" +
					"  waybill keys create partners acme --count 3 -o json",
				Method: http.MethodPost, Path: path, Args: all, Body: AnObject,
				Flags: concat(expiring("a `time`, or how long from now, such as 720h; default never"), describing(), []Flag{
					{Name: "count", Usage: "how many keys", Kind: Integer, In: InVerb},
					{Name: "import", Usage: "`file` with an existing key; -: standard input", In: InVerb},
				}, onlyIf()),
				Adjust: severalKeys, Show: view, Once: onceConsumersKey,
			},
			{
				Name: "get", Short: "Show a key", Example: "  waybill keys get partners acme key_… --key-format visible",
				Method: http.MethodGet, Path: path + "/{keyId}", Args: one, Flags: concat(keyFormat(), onlyIf()), Show: view,
			},
			{
				Name: "update", Short: "Change a key's expiry or description",
				Example: "  waybill keys update partners acme key_… --expires 24h\n  waybill keys update partners acme key_… --expires 2027-01-01T00:00:00Z",
				Method:  http.MethodPatch, Path: path + "/{keyId}", Args: one, Body: AnObject,
				Flags: concat(expiring("a `time`, or how long from now, such as 24h"), describing(), onlyIf()), Show: view,
			},
			{
				Name: "delete", Short: "Delete a key", Example: "  waybill keys delete partners acme key_…",
				Method: http.MethodDelete, Path: path + "/{keyId}", Args: one, Flags: onlyIf(),
				Done: "Key {keyId} is deleted. It no longer works.", Confirm: "Delete key {keyId}?",
			},
			rollKeys("keys"),
		},
	}
}

// rollKeys returns a verb of consumers and of their keys.
func rollKeys(noun string) Verb {
	return Verb{
		Name: "roll", Short: "Make a new key and let the others expire",
		Long: "Makes one new key that does not expire. The consumer's other keys expire at the\n" +
			"time of --expires, or now without it. A key that expires earlier keeps its time.\nThe command prints the new key if its bucket does not keep keys. Otherwise\n" +
			"`keys list --key-format visible` shows it.",
		Example: "  waybill " + noun + " roll partners acme --expires 24h\n  waybill " + noun + " roll partners acme --yes",
		Method:  http.MethodPost, Path: consumerPath + "/roll-key", Args: []Arg{bucketArg(), consumerArg()}, Body: Optional,
		Flags: concat(expiring("when the others expire: a `time`, or how long from now; default now"), onlyIf()),
		Show:  View{Columns: keyColumns()}, Once: onceConsumersKey,
		Done:    "A new key was made. To show it: waybill keys list {bucketName} {consumerName} --key-format visible",
		Confirm: "Roll the keys of {consumerName}? Its other keys expire at the time of --expires; without it: now.",
	}
}

// severalKeys makes one request for all keys, and reads a key that the user supplies.
func severalKeys(r *Request, in *Input) error {
	count := 1
	if text := in.Text("count"); text != "" {
		count, _ = strconv.Atoi(text) // the flag's kind is a number; one that is too large counts as none
		if count < 1 || count > maxKeys {
			return misusef("--count must be from 1 to %d", maxKeys)
		}
	}
	if name := in.Text("import"); name != "" {
		if count > 1 {
			return misusef("--import takes one key; leave out --count")
		}
		return importKey(r, in, name)
	}
	if in.Text("count") == "" {
		return nil
	}
	r.Path += "/$bulk"
	r.Body = []byte("[" + strings.TrimSuffix(strings.Repeat(string(r.Body)+",", count), ",") + "]")
	return nil
}

func importKey(r *Request, in *Input, name string) error {
	text, err := in.Read(name)
	if err != nil {
		return err
	}
	var body map[string]any
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	body["key"] = strings.TrimSpace(string(text))
	r.Body, err = json.Marshal(body)
	return err
}
