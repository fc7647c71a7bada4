package observe

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/traffic"
)

// newBatch makes a batch of counts and rows. Requests that are counted and have no row are recorded
// as not kept.
func newBatch(writer string, number int64, calls map[traffic.CallKey]*traffic.Calls, rows []traffic.Request) *traffic.Batch {
	b := &traffic.Batch{Writer: writer, Number: number, Calls: calls, NotKept: map[traffic.DeploymentMinute]int64{}, Rows: rows}
	for key, counted := range calls {
		b.NotKept[traffic.DeploymentMinute{Deployment: key.Deployment, Minute: key.Minute}] += counted.Calls
	}
	for i := range rows {
		b.NotKept[traffic.DeploymentMinute{Deployment: rows[i].Deployment, Minute: rows[i].At.Unix() / 60}]--
	}
	maps.DeleteFunc(b.NotKept, func(_ traffic.DeploymentMinute, n int64) bool { return n <= 0 })
	return b
}

// request returns the row of a request. It shares no memory with the request, because texts of the
// request are parts of its header.
func (k *keptRequest) request() traffic.Request {
	record, noted := k.record, &k.noted
	request := traffic.Request{
		Deployment: k.deployment, BuildID: k.build, Consumer: k.consumer,
		At: record.At.UTC(), ID: rand.Int64(), //nolint:gosec // no secret
		RequestID: strings.Clone(problem.Redact(record.RequestID)), ClientRequestID: strings.Clone(problem.Redact(record.ClientRequestID)), RoutePath: record.RoutePath, Status: record.Status,
		Took: record.Took, Severity: noted.Severity, Network: networkOf(record.Remote),
		BytesIn: record.BytesIn, BytesOut: record.BytesOut,
		BackEnd:   traffic.BackEnd{Host: noted.BackEnd.Host, Status: noted.BackEnd.Status, Took: noted.BackEnd.Took},
		MCPMethod: noted.MCPMethod, MCPTool: noted.MCPTool, Truncated: noted.Truncated, EntryCount: len(noted.Entries) + 1,
	}
	cut := func(text string, most int) string {
		if len(text) > most {
			request.Truncated = true
			text = text[:most]
		}
		return strings.Clone(text)
	}
	request.Path, request.Host = cut(problem.Redact(record.Path), maxPath), cut(record.Host, maxHost)
	request.Method = cut(record.Method, maxMethod)
	for _, e := range noted.Entries {
		request.Entries = append(request.Entries, traffic.Entry{
			At: e.At.UTC(), Severity: e.Severity, Source: e.Source, Message: e.Message, Attributes: object(e.Attributes),
		})
	}
	return request
}

// object returns attributes as a JSON object, or nil if there are none. In attributes each name is
// followed by its value.
func object(attributes []any) []byte {
	if len(attributes) < 2 {
		return nil
	}
	b := []byte{'{'}
	for i := 0; i+1 < len(attributes); i += 2 {
		name, ok := attributes[i].(string)
		if !ok {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, name)
		b = append(append(b, ':'), value(attributes[i+1])...)
	}
	return append(b, '}')
}

func value(v any) []byte {
	switch v := v.(type) {
	case string:
		text, _ := jsontext.AppendQuote(nil, v)
		return text
	case bool:
		return []byte(jsontext.Bool(v).String())
	case int:
		return []byte(jsontext.Int(int64(v)).String())
	case int64:
		return []byte(jsontext.Int(v).String())
	case float64:
		return []byte(jsontext.Float(v).String())
	}
	return []byte("null")
}

// networkOf returns the part of an address that is stored: of IPv4 the /24 network, of IPv6 the
// /48; empty: the text is no address.
func networkOf(remote string) string {
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return ""
	}
	addr = addr.Unmap().WithZone("")
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	return netip.PrefixFrom(addr, bits).Masked().String()
}
