package domain

// Class says how an attempt ended, in few enough classes to count by.
type Class string

// All classes.
const (
	ClassOK       Class = "ok"       // 2xx
	Class3xx      Class = "http_3xx" // a redirect; none is followed
	Class4xx      Class = "http_4xx" // except 410
	Class5xx      Class = "http_5xx"
	ClassTimeout  Class = "timeout"
	ClassDNS      Class = "dns"
	ClassConnect  Class = "connect"
	ClassTLS      Class = "tls"
	ClassRefused  Class = "refused"  // Waybill's rules forbid the address or the URL
	ClassProtocol Class = "protocol" // the answer was not HTTP, or broke off
	ClassAuth     Class = "auth"     // there was no token for the receiver
	ClassGone     Class = "gone"     // 410
)

// Classes returns all classes, ok first.
func Classes() []Class {
	return []Class{
		ClassOK, Class3xx, Class4xx, Class5xx, ClassTimeout, ClassDNS, ClassConnect, ClassTLS,
		ClassRefused, ClassProtocol, ClassAuth, ClassGone,
	}
}

// ClassOf returns the class of an HTTP status.
func ClassOf(status int) Class {
	switch {
	case status == 410:
		return ClassGone
	case status >= 200 && status < 300:
		return ClassOK
	case status >= 300 && status < 400:
		return Class3xx
	case status >= 400 && status < 500:
		return Class4xx
	case status >= 500 && status < 600:
		return Class5xx
	default:
		return ClassProtocol
	}
}
