package problem

import "regexp"

// secretForm is what API keys and secrets of webhooks look like, whole or in large part,
// and also as a path or a JSON pointer has them.
var secretForm = regexp.MustCompile(`(wbk_)[0-9A-Za-z_]{12,}|(whsec_)[0-9A-Za-z_+/=%~-]{12,}`)

// Redact returns a place without what looks like a key: one that was put there by mistake
// must not reach the readers of the error's report.
func Redact(place string) string { return secretForm.ReplaceAllString(place, "${1}${2}****") }
