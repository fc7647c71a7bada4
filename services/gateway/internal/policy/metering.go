package policy

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// metering holds callers to their plans, and counts their usage.
type metering struct {
	use    []route.Use
	counts []statusRange
	route  string // path of the operation
}

type statusRange struct{ first, last int }

type meteringOptions struct {
	Meters             map[string]float64
	MeterOnStatusCodes string
}

func meteringPolicy() Policy {
	return Policy{
		Name: "metering-inbound", Export: "MeteringInboundPolicy",
		About: "Counts the requests of [consumers](access.md), and refuses what their [plan](metering.md) does not allow. It comes after api-key-inbound.",
		Options: `{
			"type": "object", "additionalProperties": false, "required": ["meters"],
			"properties": {
				"meters": {
					"type": "object", "minProperties": 1, "maxProperties": 10,
					"propertyNames": {"type": "string", "pattern": "^[a-z0-9]+(?:_[a-z0-9]+)*$", "maxLength": 64},
					"additionalProperties": {"type": "integer", "minimum": 1, "maximum": 1000000},
					"description": "How much of each meter a request uses, by the slug of the meter."
				},
				"meterOnStatusCodes": {
					"type": "string", "pattern": "^[1-5][0-9]{2}(-[1-5][0-9]{2})?(, ?[1-5][0-9]{2}(-[1-5][0-9]{2})?)*$", "maxLength": 200, "default": "200-299",
					"description": "The statuses of answers that count: numbers and ranges, separated by commas."
				}
			}
		}`,
		Example: `{"meters": {"api_requests": 1}, "meterOnStatusCodes": "200-299"}`,
		New:     typed(newMetering),
	}
}

func newMetering(o *meteringOptions, _ *Env) (Parts, []Fault) {
	p := metering{counts: []statusRange{{http.StatusOK, 299}}}
	for _, slug := range slices.Sorted(maps.Keys(o.Meters)) {
		p.use = append(p.use, route.Use{Meter: slug, Amount: int64(o.Meters[slug])})
	}
	if o.MeterOnStatusCodes != "" {
		p.counts = nil
		for part := range strings.SplitSeq(o.MeterOnStatusCodes, ",") {
			first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
			if !ranged {
				last = first
			}
			from, _ := strconv.Atoi(first) // the schema has made sure that these are digits
			to, _ := strconv.Atoi(last)
			if from > to {
				return Parts{}, []Fault{{Pointer: "/meterOnStatusCodes", Detail: "must have ranges whose first status is not above the last one"}}
			}
			p.counts = append(p.counts, statusRange{from, to})
		}
	}
	return Parts{each: func(op *routefile.Operation) (route.Inbound, []Fault) {
		of := p
		of.route = op.Path
		return &of, nil
	}}, nil
}

// In checks the request, and counts it when its status is known.
func (p *metering) In(ctx context.Context, r *route.Request) (*route.Response, error) {
	meters := r.Runtime.Meters
	if meters == nil {
		return nil, nil
	}
	end, err := meters.Begin(ctx, r.Principal, p.use, route.Dims{Deployment: r.Runtime.Deployment, Route: p.route, Method: r.Method})
	if err != nil {
		return nil, err
	}
	r.Finally(func(status int, left bool) {
		switch {
		case left: // otherwise callers that leave early would never reach a quota
			status = p.counts[0].first
		case status == 0: // a stream that has begun
			status = http.StatusOK
		}
		counted := slices.ContainsFunc(p.counts, func(s statusRange) bool { return status >= s.first && status <= s.last })
		end(counted, strconv.Itoa(status))
	})
	return nil, nil
}

// NeedsBody reports false: requests are counted whatever their length.
func (*metering) NeedsBody() bool { return false }
