package handler

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/body"
	"waybill.dev/shared/problem"
)

// maxCodings is how many codings on top of each other are decoded.
const maxCodings = 4

var (
	errCoding = &backEndError{"content coding", "content_coding",
		badGateway("The back end's answer has a Content-Encoding that is not decoded here: gzip and deflate are.")}
	errCoded = &backEndError{"damaged content coding", "content_coding",
		badGateway("The back end's answer is not what its Content-Encoding says.")}
)

// codings returns the content codings of an answer, in the order in which they were applied.
func codings(header http.Header) []string {
	var list []string
	for _, value := range header.Values("Content-Encoding") {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				list = append(list, name)
			}
		}
	}
	return list
}

// decodeContent returns the content of an answer without its codings, for readers in the gateway, and
// removes the members of header that describe the coded bytes. Each step is bound as an answer is.
func decodeContent(lease *body.Lease, header http.Header, content []byte) ([]byte, error) {
	list := codings(header)
	if len(list) == 0 {
		return content, nil
	}
	header.Del("Content-Encoding")
	for _, name := range []string{"Accept-Ranges", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5"} {
		header.Del(name)
	}
	if tag := header.Get("Etag"); strings.HasPrefix(tag, `"`) {
		header.Set("Etag", "W/"+tag) // the bytes have changed
	}
	if len(content) == 0 {
		return content, nil
	}
	if len(list) > maxCodings {
		return nil, errCoding
	}
	for len(list) > 0 {
		last := len(list) - 1
		reader, err := newDecoder(list[last], content)
		if err != nil {
			return nil, err
		}
		content, err = lease.ReadAll(reader, -1, route.MaxResponse)
		_, told := errors.AsType[*problem.Problem](err)
		switch {
		case told:
			return nil, err //nolint:wrapcheck // as it stands
		case errors.Is(err, body.ErrTooLarge):
			return nil, tooLong()
		case err != nil:
			return nil, errCoded
		}
		list = list[:last]
	}
	return content, nil
}

// newDecoder returns a reader that undoes one coding.
func newDecoder(name string, content []byte) (io.Reader, error) {
	var reader io.Reader
	var err error
	switch name {
	case "gzip", "x-gzip":
		reader, err = gzip.NewReader(bytes.NewReader(content))
	case "deflate":
		// Some servers leave out the header that the coding has.
		if len(content) > 1 && content[0]&0x0f == 8 && (int(content[0])<<8|int(content[1]))%31 == 0 {
			reader, err = zlib.NewReader(bytes.NewReader(content))
		} else {
			reader = flate.NewReader(bytes.NewReader(content))
		}
	default:
		return nil, errCoding
	}
	if err != nil {
		return nil, errCoded
	}
	return reader, nil
}
