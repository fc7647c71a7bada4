package verb

import "net/http"

const signingKeysPath = "/v1/signing-keys"

// signingKeys returns the noun of the keys that sign callbacks by v1a.
func signingKeys() Noun {
	view := View{None: "There are no signing keys.", Columns: []Column{
		{Title: "ID", Member: "id"},
		{Title: "PUBLIC KEY", Member: "publicKey"},
		{Title: "CREATED", Member: "createdAt", Form: Moment},
		{Title: "ENDS", Member: "expiresAt", Form: Moment, Null: "never"},
		{Title: "ALGORITHM", Member: "algorithm", Wide: true},
	}}
	return Noun{
		Name: "signing-keys", Short: "List and rotate the keys that sign callbacks by v1a",
		Long: "An account has a key of its own, which signs the callbacks of webhooks whose\nsigning is v1a or both. Receivers check them with the public key.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the public keys, the newest first", Example: "  waybill signing-keys list",
				Method: http.MethodGet, Path: signingKeysPath, Show: view,
			},
			{
				Name: "rotate", Short: "Make a new signing key",
				Long:    "Makes a new signing key. Until the overlap ends, callbacks carry a signature of\neach key. Receivers must have the new public key by then.",
				Example: "  waybill signing-keys rotate\n  waybill signing-keys rotate --overlap 168h",
				Method:  http.MethodPost, Path: signingKeysPath + "/rotate", Body: Optional,
				Flags:   []Flag{{Name: "overlap", Usage: "how long the other keys sign too; default 24h, at most 168h", Kind: Seconds, To: "overlapSeconds"}},
				Show:    view,
				Confirm: "Make a new signing key? The others end after the overlap.",
			},
		},
	}
}
