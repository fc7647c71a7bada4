package verb

import "net/http"

// ending returns the noun of things that expire soon.
func ending() Noun {
	return Noun{Name: "expiring", Self: &Verb{
		Name: "expiring", Short: "List certificates, keys and secrets that end within 14 days",
		Long: "Lists what of your account ends within 14 days, the soonest first: certificates\nof receivers, client certificates of webhooks, previous secrets and signing keys\n" +
			"after a rotation, API keys, and CA certificates of clients. -o json says what\nto do about each.",
		Example: "  waybill expiring\n  waybill expiring -o json",
		Method:  http.MethodGet, Path: "/v1/expiring",
		Show: View{None: "Nothing ends within 14 days.", Columns: []Column{
			{Title: "ENDS", Member: "expiresAt", Form: Moment},
			{Title: "KIND", Member: "kind", Form: Word},
			{Title: "WEBHOOK", Member: "webhookId", Form: Ident, Rare: true},
			{Title: "URL", Member: "url", Form: Link, Shrinks: true, Rare: true},
			{Title: "SIGNING KEY", Member: "signingKeyId", Rare: true},
			{Title: "BUCKET", Member: "bucketName", Rare: true},
			{Title: "CONSUMER", Member: "consumerName", Rare: true},
			{Title: "KEY", Member: "keyId", Form: Ident, Rare: true},
			{Title: "CA", Member: "caCertificateName", Rare: true},
		}},
	}}
}
