package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"waybill.dev/shared/domain"
)

// Code says why an attempt got no answer. It is from a fixed list, so it can be a metric's label.
type Code string

// The codes.
const (
	CodeURL            Code = "url_not_allowed"     // the URL breaks a rule of form
	CodeAddress        Code = "address_not_allowed" // the address is not public and not allowed
	CodeDNS            Code = "dns"                 // the name was not found in time
	CodeRefused        Code = "connect_refused"
	CodeConnectTimeout Code = "connect_timeout"
	CodeConnect        Code = "connect" // any other failure to connect
	CodeTLS            Code = "tls"
	CodeTimeout        Code = "timeout" // connected, but no answer before the deadline
	CodeReset          Code = "reset"
	CodeClosed         Code = "closed" // closed before an answer
	CodeBadStatus      Code = "bad_status"
	CodeHeaderTooLarge Code = "header_too_large"
	CodeBadResponse    Code = "bad_response" // not HTTP/1.1
	CodeCanceled       Code = "canceled"     // the caller gave up
)

// Text returns the text for customers. It never contains an address or text from the receiver.
func (c Code) Text() string {
	switch c {
	case CodeURL:
		return "the URL is not allowed"
	case CodeAddress:
		return ErrAddress.Error()
	case CodeDNS:
		return "could not be reached: host name not found"
	case CodeRefused:
		return "could not be reached: connection refused"
	case CodeConnectTimeout:
		return "could not be reached: connecting took too long"
	case CodeTLS:
		return "could not be reached: TLS handshake failed"
	case CodeTimeout:
		return "no answer in time"
	case CodeReset:
		return "the connection was reset"
	case CodeClosed:
		return "the connection was closed before an answer"
	case CodeBadStatus:
		return "the answer has no valid status"
	case CodeHeaderTooLarge:
		return "the answer's header is too large"
	case CodeBadResponse:
		return "the answer is not valid HTTP/1.1"
	case CodeCanceled:
		return "the attempt was cancelled"
	}
	return "could not be reached"
}

// Class returns the class of an attempt that ended without an answer.
func (c Code) Class() domain.Class {
	switch c {
	case CodeURL, CodeAddress:
		return domain.ClassRefused
	case CodeDNS:
		return domain.ClassDNS
	case CodeRefused, CodeConnectTimeout, CodeConnect:
		return domain.ClassConnect
	case CodeTLS:
		return domain.ClassTLS
	case CodeTimeout, CodeCanceled:
		return domain.ClassTimeout
	}
	return domain.ClassProtocol
}

// Error is why an attempt failed, for the operator's log. It may contain addresses and the host's
// name, but never the URL's path or query, nor text from the receiver.
type Error struct {
	Code  Code
	cause error
}

func (e *Error) Error() string { return "post callback: " + e.Reason() }

// Reason returns the error without what was being done.
func (e *Error) Reason() string {
	detail := ""
	if e.Code == CodeTLS {
		detail = tlsReason(e.cause)
	}
	if detail == "" {
		detail = describe(e.cause)
	}
	if detail != "" {
		return string(e.Code) + ": " + detail
	}
	return string(e.Code)
}

// Text returns the text for customers: the text of the code and, for a failed TLS handshake, the
// reason. It never contains an address, a name, or text from the receiver.
func (e *Error) Text() string {
	if reason := tlsReason(e.cause); e.Code == CodeTLS && reason != "" {
		return e.Code.Text() + ": " + reason
	}
	return e.Code.Text()
}

// tlsReason returns why a handshake failed; empty: it does not know the error.
func tlsReason(cause error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		plain     tls.RecordHeaderError
		timeout   net.Error
	)
	switch {
	case errors.As(cause, &authority):
		return "the certificate comes from an unknown authority"
	case errors.As(cause, &hostname):
		return "the certificate is for another name"
	case errors.As(cause, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet"
	case errors.As(cause, &invalid):
		return "the certificate is not valid"
	case errors.As(cause, &plain):
		return "the receiver does not speak TLS on this port"
	case errors.As(cause, &timeout) && timeout.Timeout():
		return "it took too long"
	case refusedCertificate(cause):
		return "the receiver refuses the certificate that it was shown, or wants one"
	}
	return ""
}

// Unwrap returns the cause; its text may contain text from the receiver.
func (e *Error) Unwrap() error { return e.cause }

// describe returns the detail of causes whose text is not from the receiver.
func describe(cause error) string {
	var (
		op    *net.OpError
		dns   *net.DNSError
		alert tls.AlertError
		form  URLError
	)
	switch {
	case cause == nil:
		return ""
	case errors.As(cause, &alert):
		return alert.Error()
	case errors.Is(cause, ErrAddress), errors.As(cause, &form):
		return cause.Error()
	case errors.As(cause, &dns):
		return dns.Error()
	case errors.As(cause, &op):
		return op.Error()
	case errors.Is(cause, context.DeadlineExceeded):
		return "deadline exceeded"
	}
	return ""
}

// classify returns an error of the transport with its code.
func classify(ctx context.Context, err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		// A dial that reached the attempt's own deadline has the code of the step that it was in.
		return known
	}
	e := &Error{Code: CodeBadResponse, cause: err}
	var timeout net.Error
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		e.Code = CodeCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.Code = CodeTimeout
	case refusedCertificate(err):
		e.Code = CodeTLS
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Code = CodeReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "server closed idle connection"):
		e.Code = CodeClosed
	case strings.Contains(err.Error(), "response headers exceeded"):
		e.Code = CodeHeaderTooLarge
	}
	return e
}
