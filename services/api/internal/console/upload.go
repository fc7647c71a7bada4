package console

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"time"

	"waybill.dev/shared/body"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

const (
	// uploadTime is how long the upload of a form with a file may take, on a slow line too.
	uploadTime = 2 * time.Minute
	// overread is how much of a file that is too large is read, as a multiple of the limit: a
	// browser shows no answer to an upload that it could not finish.
	overread = 4
	// maxParts bounds the fields of a form with a file.
	maxParts = 20
)

// Upload returns the values of a form with enctype multipart/form-data, and the file of one of its
// fields; nil: none was chosen. When the file has more than limit bytes, the error is ErrTooLarge,
// and the fields before the file are returned. If the session lacks the scope, nothing is read.
func (p *Page) Upload(scope domain.Scope, field string, limit int64) (url.Values, []byte, error) {
	if !p.May(scope) {
		return nil, nil, problem.Lacking(string(scope), problem.Scopes{Required: []domain.Scope{scope}, Granted: p.Session.Principal.Scopes})
	}
	control := http.NewResponseController(p.Writer)
	until := time.Now().Add(uploadTime)
	_ = control.SetReadDeadline(until) // without a connection there is no deadline to set
	_ = control.SetWriteDeadline(until)
	p.Request.Body = http.MaxBytesReader(p.Writer, p.Request.Body, overread*limit)
	parts, err := p.Request.MultipartReader()
	if errors.Is(err, http.ErrNotMultipart) {
		values, err := p.Form()
		return values, nil, err
	}
	values := url.Values{}
	for range maxParts {
		var part *multipart.Part
		if err == nil {
			part, err = parts.NextPart()
		}
		if errors.Is(err, io.EOF) {
			return values, nil, nil
		}
		if err != nil {
			return values, nil, unreadable(err)
		}
		name := part.FormName()
		most := int64(maxForm)
		if name == field {
			most = limit
		}
		content, err := p.lease.ReadAll(part, -1, most)
		switch {
		case errors.Is(err, body.ErrTooLarge):
			_, _ = io.Copy(io.Discard, part)
			return values, nil, ErrTooLarge
		case err != nil:
			return values, nil, unreadable(err)
		case name != field:
			values.Add(name, string(content))
		case part.FileName() != "":
			return values, content, nil
		}
	}
	return values, nil, errForm
}

// ErrTooLarge says that a file exceeds its limit.
var ErrTooLarge = errors.New("the file is too large")

func unreadable(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return ErrTooLarge
	}
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return p
	}
	return errForm
}
