package routefile

// Matcher returns the function that tells whether an escaped path is one of the operation,
// and what its parameters are, decoded. What has no name is numbered from "0" on.
func (o *Operation) Matcher() (func(path string) (params map[string]string, ok bool), error) {
	return func(string) (map[string]string, bool) { return nil, false }, nil
}
