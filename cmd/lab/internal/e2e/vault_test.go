package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/pgtest"
)

// vault knows every secret of a case, and has every answer that may show none of them.
type vault struct {
	*world
	secrets map[string]string // what each is
	answers bytes.Buffer
}

var shownSecret = regexp.MustCompile(`wbk_[0-9A-Za-z]{32}_[0-9a-f]{8}|whsec_[0-9A-Za-z+/]+=*`)

// reveal asks for what shows secrets, which are kept, and returns them with the answer.
func (v *vault) reveal(method, path, body string) (client.Answer, []string) {
	v.Helper()
	a := v.do(v.api, method, path, body, http.Header{"Idempotency-Key": {fmt.Sprint("once-", len(v.secrets))}})
	shown := shownSecret.FindAllString(string(a.Body), -1)
	if a.Status > 299 || len(shown) == 0 {
		v.Fatalf("%s %s answers %d and shows no secret: %.300s", method, path, a.Status, a.Body)
	}
	for _, secret := range shown {
		v.secrets[secret] = "shown by " + method + " " + path
	}
	return a, shown
}

// ask asks for what shows no secret, and is answered well.
func (v *vault) ask(method, path, body string) client.Answer {
	v.Helper()
	a := v.do(v.api, method, path, body, nil)
	if a.Status > 299 {
		v.Fatalf("%s %s answers %d: %.300s", method, path, a.Status, a.Body)
	}
	v.note(a)
	return a
}

// refused asks for what is refused.
func (v *vault) refused(c *stack.Client, method, path, body string, header http.Header) {
	v.Helper()
	a := v.do(c, method, path, body, header)
	if a.Status < 400 || a.Status > 499 {
		v.Errorf("%s %.60s answers %d: %.300s", method, path, a.Status, a.Body)
	}
	v.note(a)
}

func (v *vault) do(c *stack.Client, method, path, body string, header http.Header) client.Answer {
	v.Helper()
	a, err := c.Ask(v.Context(), method, path, []byte(body), header)
	if err != nil {
		v.Fatal(err)
	}
	return a
}

func (v *vault) note(a client.Answer) {
	_ = a.Header.Write(&v.answers)
	v.answers.Write(a.Body)
}

// idOf returns the id of what an answer shows.
func (v *vault) idOf(a client.Answer) string {
	v.Helper()
	var out struct{ ID string }
	if err := json.Unmarshal(a.Body, &out); err != nil || out.ID == "" {
		v.Fatalf("the answer has no id: %.300s", a.Body)
	}
	return out.ID
}

// forms returns what a secret is known by: the halves of each way to write it, for a page
// of a database may end in the middle. What all keys have in common is left out, and so is
// the checksum, which is shown.
func forms(secret string) (list [][]byte) {
	// A dump of Postgres writes bytes in hex.
	halves := func(text []byte) {
		for _, half := range [][]byte{text[:len(text)/2], text[len(text)/2:]} {
			list = append(list, half, []byte(hex.EncodeToString(half)))
		}
	}
	switch {
	case strings.HasPrefix(secret, "wbk_"):
		halves([]byte(secret[len("wbk_"):][:32]))
	case strings.HasPrefix(secret, "whsec_"):
		text := strings.TrimPrefix(secret, "whsec_")
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			halves(raw)
		}
		text = strings.TrimRight(text, "=")
		halves([]byte(text))
		halves([]byte(url.QueryEscape(text)))
	default:
		halves([]byte(secret))
	}
	return list
}

// has reports whether there is something of a secret in what was found.
func has(found []byte, secret string) bool {
	for _, form := range forms(secret) {
		if bytes.Contains(found, form) {
			return true
		}
	}
	return false
}

// leftovers is all that the processes have told and keep, by where it was found.
func (v *vault) leftovers() map[string][]byte {
	v.Helper()
	all := map[string][]byte{"answers": v.answers.Bytes(), "traces": v.traces.all()}
	for _, p := range v.stack.Processes() {
		log, err := os.ReadFile(p.LogFile())
		if err != nil {
			v.Fatal(err)
		}
		all["log of "+p.Name] = log
	}
	for name := range v.stack.Ops {
		metrics, err := v.stack.Metrics(v.Context(), name)
		if err != nil {
			v.Fatal(err)
		}
		all["metrics of "+name] = metrics
	}
	if v.stack.Postgres != nil {
		var dump bytes.Buffer
		if err := pgtest.Dump(v.Context(), v.stack.DatabaseURL, &dump); err != nil {
			v.Fatal(err)
		}
		all["database"] = dump.Bytes()
		log, err := os.ReadFile(filepath.Join(v.stack.Postgres.Dir(), "postgres.log"))
		if err != nil {
			v.Fatal(err)
		}
		all["log of Postgres"] = log
	}
	v.files(all)
	return all
}

// files reads what NATS and SQLite keep. Their files may go while they are read.
func (v *vault) files(all map[string][]byte) {
	v.Helper()
	err := filepath.WalkDir(v.stack.Data(), func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		kind := "file"
		switch {
		case strings.Contains(path, "jetstream"):
			kind = "bus"
		case strings.Contains(filepath.Base(path), ".db"):
			kind = "database"
		}
		all[kind+" "+path] = content
		return nil
	})
	if err != nil {
		v.Fatal(err)
	}
}
