package receiver

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/look"
)

//go:embed web/*.html web/*.js
var web embed.FS

// newPage returns the page and its embedded files.
func newPage() (*look.Assets, *template.Template) {
	own, err := fs.Sub(web, "web")
	if err != nil {
		panic(err)
	}
	files, err := look.NewAssets("/-/assets/", own)
	if err != nil {
		panic(err)
	}
	set := template.Must(look.Parse(template.New("page.html").Funcs(look.Functions(files))))
	return files, template.Must(set.ParseFS(web, "web/page.html"))
}

// The states of a signature, which are CSS classes too.
const (
	stateGood      = "good"
	stateBad       = "bad"
	stateUnchecked = "unchecked"
)

type pageData struct {
	Rows     []row
	Selected *detail
	Paths    []pathRow
	Types    []domain.EventType
	Newest   bool // it is selected only because it is the newest
	Search   string
	All      int // number of callbacks, found or not
	Form     pathRow
}

type row struct {
	Number   int
	At       time.Time
	After    string // time since the first attempt of its delivery
	Path     string
	Type     string
	EventID  string
	Delivery string
	Attempt  int
	Status   int
	Answered string // CSS class of Status
	State    string
	Selected bool
	Search   string // search text that the link to it keeps
}

type detail struct {
	row
	Steps   []stepRow
	Headers []headerRow
	Size    int
	Pretty  string // empty: it is not JSON
	Raw     string
	Cut     bool // the body, or its indented form, is too long to be shown completely
	Delay   time.Duration
	Query   string
	Others  []row // all attempts of its delivery
}

type stepRow struct {
	Name, Value, Detail string
	State               string
}

type headerRow struct{ Name, Value string }

type pathRow struct {
	Path    string
	Secrets int
	Answer  Answer   // the answer that was set for it
	Asked   []Answer // that the URLs of its webhooks and callbacks ask for
}

// page shows the callbacks that contain the text of ?q=, and one of them in full: that of ?n=,
// otherwise the newest.
func (r *Receiver) page(w http.ResponseWriter, req *http.Request) {
	callbacks := r.Callbacks()
	search, all := strings.TrimSpace(req.URL.Query().Get("q")), len(callbacks)
	callbacks = slices.DeleteFunc(callbacks, func(c Callback) bool { return !c.has(search) })
	wanted, err := strconv.Atoi(req.URL.Query().Get("n"))
	at := slices.IndexFunc(callbacks, func(c Callback) bool { return c.Number == wanted })
	data := pageData{Newest: err != nil || at < 0, Types: domain.EventTypes(), Paths: r.told(), Search: search, All: all}
	if at < 0 {
		at = 0
	}
	for i, c := range callbacks {
		one := r.row(c)
		one.Selected, one.Search = i == at, search
		data.Rows = append(data.Rows, one)
	}
	if len(callbacks) > 0 {
		data.Selected = r.detail(callbacks[at], data.Rows)
	}
	data.Form = pathRow{Path: "/in/demo", Answer: Answer{Status: http.StatusOK}}
	if data.Selected != nil {
		data.Form.Path = data.Selected.Path
	}
	for _, known := range data.Paths {
		if known.Path == data.Form.Path {
			data.Form = known
		}
	}
	var page bytes.Buffer
	if err := r.layout.ExecuteTemplate(&page, "page.html", data); err != nil {
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes())
}

// told returns the known facts about paths, in their order.
func (r *Receiver) told() []pathRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(r.paths)), maps.Keys(r.found))
	slices.Sort(names)
	var rows []pathRow
	for _, name := range slices.Compact(names) {
		one := pathRow{Path: name, Secrets: len(r.keys(name)), Answer: Answer{Status: http.StatusOK}}
		if known := r.paths[name]; known != nil {
			one.Answer = known.answer
		}
		one.Asked = r.asked(name, one.Answer)
		rows = append(rows, one)
	}
	return rows
}

// asked returns the answers that the URLs of a path's webhooks and callbacks ask for, without
// repetitions. otherwise is the answer for a URL that asks for none. The caller holds mu.
func (r *Receiver) asked(path string, otherwise Answer) []Answer {
	queries := slices.Clone(r.found[path].Queries)
	for _, c := range r.callbacks {
		if c.Path == path && !slices.Contains(queries, c.Query) {
			queries = append(queries, c.Query)
		}
	}
	var answers []Answer
	for _, text := range queries {
		query, err := url.ParseQuery(text)
		if err != nil {
			continue
		}
		if answer, err := fromQuery(query, otherwise); err == nil && !slices.Contains(answers, answer) {
			answers = append(answers, answer)
		}
	}
	return answers
}

// has reports whether the callback contains a text that a person searches for. The case of letters
// matters only in the body.
func (c Callback) has(text string) bool {
	if text == "" || bytes.Contains(c.Body, []byte(text)) {
		return true
	}
	lower := strings.ToLower(text)
	in := func(value string) bool { return strings.Contains(strings.ToLower(value), lower) }
	if in(c.Path) || in(c.Query) || strconv.Itoa(c.Status) == text {
		return true
	}
	for name, values := range c.Header {
		if in(name) || slices.ContainsFunc(values, in) {
			return true
		}
	}
	return false
}

func (r *Receiver) row(c Callback) row {
	_, checked, ok := r.verify(c)
	one := row{
		Number: c.Number, At: c.ReceivedAt, Path: c.Path, EventID: c.EventID(), Delivery: c.Delivery(),
		Type: eventType(c.Body), Attempt: c.Attempt(), Status: c.Status, Answered: stateBad, State: stateUnchecked,
	}
	if c.Status < 300 {
		one.Answered = stateGood
	}
	switch {
	case checked && ok:
		one.State = stateGood
	case checked:
		one.State = stateBad
	}
	return one
}

func (r *Receiver) detail(c Callback, rows []row) *detail {
	d := &detail{row: r.row(c), Size: len(c.Body), Delay: c.Delay, Query: c.Query}
	steps, checked, _ := r.verify(c)
	signed := make(map[string]bool)
	for i, step := range steps {
		one := stepRow{Name: step.Name, Value: c.Header.Get(step.Name), Detail: step.Detail, State: stateBad}
		switch {
		case step.OK:
			one.State = stateGood
		case i == len(steps)-1 && !checked:
			one.State = stateUnchecked
		}
		signed[http.CanonicalHeaderKey(step.Name)] = true
		d.Steps = append(d.Steps, one)
	}
	for name, values := range c.Header {
		if !signed[name] {
			d.Headers = append(d.Headers, headerRow{name, strings.Join(values, ", ")})
		}
	}
	slices.SortFunc(d.Headers, func(a, b headerRow) int { return cmp.Compare(a.Name, b.Name) })
	d.Pretty, d.Raw = pretty(c.Body), raw(c.Body)
	d.Cut = len(d.Pretty) > maxShown || len(d.Raw) > maxShown
	d.Pretty, d.Raw = head(d.Pretty), head(d.Raw)
	for _, other := range rows {
		if other.Delivery == d.Delivery && other.Path == d.Path && other.Delivery != "" {
			d.Others = append(d.Others, other)
		}
	}
	slices.Reverse(d.Others)
	for i := range d.Others[min(1, len(d.Others)):] {
		d.Others[i+1].After = look.Offset(d.Others[i+1].At.Sub(d.Others[0].At))
	}
	return d
}

// maxShown bounds the shown part of a body, in bytes: 20,000 brackets become 200 MB when each is
// indented.
const maxShown = 512 << 10

// head returns the beginning of a text, as much as is shown.
func head(text string) string {
	if len(text) <= maxShown {
		return text
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// pretty returns the body indented, with every number and string unchanged, until it is longer than
// maxShown; empty: it is not JSON.
func pretty(body []byte) string {
	if !json.Valid(body) {
		return ""
	}
	var b []byte
	depth, inText := 0, false
	line := func() {
		b = append(b, '\n')
		for range depth {
			b = append(b, "  "...)
		}
	}
	for i := 0; i < len(body) && len(b) <= maxShown; i++ {
		c := body[i]
		switch {
		case inText:
			b = append(b, c)
			if c == '\\' {
				i++
				b = append(b, body[i])
			}
			inText = c != '"'
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == '{' || c == '[':
			b = append(b, c)
			if rest := bytes.TrimLeft(body[i+1:], " \t\r\n"); rest[0] == '}' || rest[0] == ']' {
				i = len(body) - len(rest)
				b = append(b, rest[0])
				continue
			}
			depth++
			line()
		case c == '}' || c == ']':
			depth--
			line()
			b = append(b, c)
		case c == ',':
			b = append(b, c)
			line()
		case c == ':':
			b = append(b, ": "...)
		default:
			inText = c == '"'
			b = append(b, c)
		}
	}
	return string(b)
}

// raw returns the body for display: bytes that are not text are quoted.
func raw(body []byte) string {
	if utf8.Valid(body) {
		return string(body)
	}
	return fmt.Sprintf("%+q", body[:min(len(body), maxShown)])
}

func eventType(body []byte) string {
	var event struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(body, &event) // a body that is not an event has no type
	if event.Type == "" || len(event.Type) > 64 {
		return "–"
	}
	return event.Type
}

// Sentence describes the behaviour of the path, for the list of paths.
func (p pathRow) Sentence() string {
	if len(p.Asked) == 0 {
		return "answers " + p.Answer.words()
	}
	words := make([]string, len(p.Asked))
	for i, answer := range p.Asked {
		words[i] = answer.words()
		if answer != p.Answer {
			words[i] += ", as the URL asks"
		}
	}
	return "answers " + strings.Join(words, "; ")
}

func (a Answer) words() string {
	text := strconv.Itoa(a.Status)
	if a.Delay > 0 {
		text += " after " + a.Delay.String()
	}
	if a.Times > 0 {
		text += fmt.Sprintf(", %d× for each event, then 200", a.Times)
	}
	return text
}

// DelaySeconds returns the delay as text for the form.
func (p pathRow) DelaySeconds() string {
	return strconv.FormatFloat(p.Answer.Delay.Seconds(), 'f', -1, 64)
}
