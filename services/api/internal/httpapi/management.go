package httpapi

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"

	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/input"
	"waybill.dev/services/api/internal/problem"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
)

// Bounds that accounts, buckets, consumers and keys have in common.
const (
	maxOffset  = math.MaxUint32
	maxTags    = 50
	maxExtra   = 16 << 10 // bytes of tags, and of metadata, as JSON
	maxBulk    = 1000
	tagPrefix  = "tag."
	accountsV1 = "/v1/accounts"
)

const extraTooLarge = "must have at most 16 KiB"

// errEscalation refuses what would give a caller, or let it take away, more than it has.
var errEscalation = problem.New(problem.Forbidden, "The consumer's scopes exceed those of the key.")

// faults puts what is wrong with several parts of a request into one problem. An error of
// another kind comes first.
func faults(errs ...error) error {
	var all []problem.Fault
	for _, err := range errs {
		if err == nil {
			continue
		}
		var p *problem.Problem
		if !errors.As(err, &p) || p.Code != problem.InvalidInput {
			return err
		}
		all = append(all, p.Faults...)
	}
	if len(all) == 0 {
		return nil
	}
	return problem.Invalid(all...)
}

// account returns the account that the path names. One that the caller may not see is
// told from one that does not exist by nothing.
func (s *server) account(c *call) (string, error) {
	name := c.Param("accountName")
	if !c.principal.Sees(name) {
		return "", errNoAccount
	}
	return name, nil
}

// bucketRef returns the bucket that the path names, with the tags that the query wants it
// to have.
func (s *server) bucketRef(c *call, q *input.Query) (access.BucketRef, error) {
	account, err := s.account(c)
	if err != nil {
		return access.BucketRef{}, err
	}
	return access.BucketRef{Account: account, Bucket: c.Param("bucketName"), Tags: q.Prefixed(tagPrefix), Guard: c.guard}, nil
}

// consumerRef is bucketRef for a consumer that is to be changed, or shown with its keys.
func (s *server) consumerRef(c *call, q *input.Query) (access.ConsumerRef, error) {
	account, err := s.account(c)
	if err != nil {
		return access.ConsumerRef{}, err
	}
	return access.ConsumerRef{
		Account: account, Bucket: c.Param("bucketName"), Consumer: c.Param("consumerName"),
		Tags: q.Prefixed(tagPrefix), Guard: c.guard,
	}, nil
}

// readRef is consumerRef for one that is read. Only who sees its keys in full must have
// its scopes, too.
func (s *server) readRef(c *call, q *input.Query, full bool) (access.ConsumerRef, error) {
	ref, err := s.consumerRef(c, q)
	if !full {
		ref.Guard = nil
	}
	return ref, err
}

// guard refuses a change of a consumer that may do more than the caller.
func (c *call) guard(consumer domain.Consumer) error {
	if auth.Exceeds(consumer.Scopes, c.principal) {
		return errEscalation
	}
	return nil
}

// changed has the authenticator forget what it knew of keys, before the change of them is
// answered. It does so, too, when it is not known whether the change came about.
func (s *server) changed(c *call, err error) error {
	var p *problem.Problem
	if err == nil || !errors.Is(err, domain.ErrNotFound) && !errors.Is(err, domain.ErrConflict) && !errors.As(err, &p) {
		s.Keys.Changed(c.ctx())
	}
	return err
}

// path joins segments to a path for Location.
func path(segments ...string) string {
	var b strings.Builder
	b.WriteString(accountsV1)
	for _, segment := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(segment))
	}
	return b.String()
}

// created answers with what was made and where it is.
func (c *call) created(location string, value any) error {
	c.Header("Location", c.link(location))
	return c.answer(http.StatusCreated, value)
}

// taken tells a name that is in use from other conflicts.
func taken(err error, detail string) error {
	if errors.Is(err, domain.ErrConflict) {
		return problem.New(problem.Conflict, detail)
	}
	return err
}

// nameBody reads a body that is a name of at most maximum characters alone.
func (c *call) nameBody(maximum int) (string, error) {
	queryErr := c.query().Err()
	f, _, err := c.form(false)
	if err != nil {
		return "", faults(queryErr, err)
	}
	name := readName(f, 1, maximum)
	return name, faults(queryErr, f.Err())
}

// readName reads a name of minimum to maximum lower-case letters, digits and hyphens.
func readName(f *input.Form, minimum, maximum int) string {
	f.Require("name")
	name, ok := f.Text("name", 0, math.MaxInt32)
	if ok && !validName(name, minimum, maximum) {
		f.Fault(fmt.Sprintf("must match ^[a-z0-9-]{%d,%d}$", minimum, maximum), "name")
	}
	return name
}

func validName(name string, minimum, maximum int) bool {
	if len(name) < minimum || len(name) > maximum {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// readTags reads tags, which replace all that were there.
func readTags(f *input.Form) (tags map[string]string, ok bool) {
	pairs, ok := f.Pairs("tags", maxTags)
	if !ok {
		return nil, false
	}
	tags, size := make(map[string]string, len(pairs)), 0
	for _, pair := range pairs {
		tags[pair.Name] = pair.Value
		size += len(pair.Name) + len(pair.Value) + len(`"":"",`)
	}
	if size > maxExtra {
		f.Fault(extraTooLarge, "tags")
		return nil, false
	}
	return tags, true
}
