// Package tunnel defines the protocol between gateways and agents: the form of tokens, how a connection is opened,
// and the messages on it other than requests to services.
package tunnel

import (
	"encoding/hex"
	"hash/crc32"
	"regexp"
	"time"

	"waybill.dev/shared/domain"
)

// Purpose is the purpose for which the key of the tokens' HMACs is derived. If it changed, no stored token would be
// found.
const Purpose = "tunnel tokens"

// How a connection is opened: a WebSocket of this protocol, with the token as the bearer in
// Authorization and the agent's version in VersionHeader. In the WebSocket the gateway is the
// client of HTTP/2, and the agent is the server.
const (
	ConnectPath   = "/v1/tunnel-connect"
	Protocol      = "waybill-tunnel.1"
	VersionHeader = "Waybill-Agent-Version"
)

// Requests to ControlHost are for the agent itself. No service can have this name.
const (
	ControlHost = "waybill.agent"
	// ServicesPath accepts the services configuration by PUT: 204, or 409 with the reason as text.
	ServicesPath = "/services"
	// LeavePath gets a POST, with the reason, when the gateway begins no more requests on the connection.
	LeavePath = "/leave"
)

// The codes with which gateways close the WebSocket, in addition to those of RFC 6455.
const (
	CloseToken   = 4001 // the agent has refused the configuration in force
	CloseRefused = 4002 // the agent has refused the configuration that holds
)

// ErrorHeader marks an answer from the agent itself, because the service gave none. Its value is one of the codes below.
const ErrorHeader = "Waybill-Tunnel-Error"

// The values of ErrorHeader.
const (
	CodeUnknown     = "unknown_service" // the agent has no such service
	CodeUnreachable = "unreachable"     // the service can't be connected to
	CodeFailed      = "failed"          // the service did not answer
)

// Bounds of a connection.
const (
	Streams   = 250              // requests at a time
	Window    = 1 << 20          // bytes on their way, of a request or an answer
	PingAfter = 15 * time.Second // of silence
	PingTime  = 8 * time.Second  // until an answer
	// MaxHeader bounds the headers of a request and of an answer, in bytes.
	MaxHeader = 32 << 10
	// MaxBody bounds the body of a request and of an answer, in bytes.
	MaxBody = 1 << 20
)

// A token is wbt_, 32 characters of base62, _ and the CRC-32 of the 32 in lower-case hex. The
// checksum saves look-ups for made-up tokens; it protects nothing.
const (
	tokenPrefix = "wbt_"
	tokenSize   = 32
	suffixSize  = 8
)

var tokenForm = regexp.MustCompile(`^wbt_[0-9A-Za-z]{32}_[0-9a-f]{8}$`)

// NewToken returns a new token.
func NewToken() domain.Secret {
	body := domain.RandomText(tokenSize)
	return domain.Secret(tokenPrefix + body + "_" + checksum(body))
}

// WellFormed reports whether a text has the form of a token.
func WellFormed(token string) bool {
	return tokenForm.MatchString(token) && checksum(token[len(tokenPrefix):len(tokenPrefix)+tokenSize]) == Suffix(token)
}

// Suffix returns the end of a token, by which people distinguish tokens.
func Suffix(token string) string { return token[max(0, len(token)-suffixSize):] }

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	return hex.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}
