package problem

import "regexp"

// secretForm matches API keys and secrets of webhooks, whole or in large part, also in the form
// that they have in a path or a JSON pointer.
var secretForm = regexp.MustCompile(`(wbk_)[0-9A-Za-z_]{12,}|(whsec_)[0-9A-Za-z_+/=%~-]{12,}`)

// Redact returns a place without text that looks like a key: a key that was put there by mistake
// must not reach readers of the error report.
func Redact(place string) string { return secretForm.ReplaceAllString(place, "${1}${2}****") }
