package receiver_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/cmd/internal/receiver"
	"waybill.dev/shared/signature"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	another = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

type rig struct {
	*testing.T
	receiver *receiver.Receiver
	url      string
	client   *http.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := receiver.New()
	server := httptest.NewServer(r.Handler())
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &rig{t, r, server.URL, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// do sends a request and returns status, headers and body of the answer.
func (r *rig) do(method, path, body string, header http.Header) (int, http.Header, string) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	maps.Copy(request.Header, header)
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := r.client.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

// callback sends a callback that is signed with the secret and returns the status.
func (r *rig) callback(path, id string, attempt int, signedWith string) int {
	r.Helper()
	body := `{"type":"shipment.created","data":{"n":0.1000,"<b>":"&"}}`
	key, err := signature.ParseSecret(signedWith)
	if err != nil {
		r.Fatal(err)
	}
	now := time.Now()
	status, _, _ := r.do(http.MethodPost, path, body, http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)},
		"Webhook-Signature":   {signature.NewSigner(key).Sign(id, now, []byte(body))},
		"Waybill-Attempt":     {strconv.Itoa(attempt)},
		"Waybill-Delivery-Id": {"d" + id},
	})
	return status
}

func (r *rig) page(path string) string {
	r.Helper()
	status, header, text := r.do(http.MethodGet, path, "", nil)
	if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';") {
		r.Fatalf("page %s: %d, %v", path, status, header)
	}
	return text
}

func (r *rig) tell(instruction string) {
	r.Helper()
	if status, _, text := r.do(http.MethodPost, "/-/paths", instruction, http.Header{"Content-Type": {"application/json"}}); status != http.StatusNoContent {
		r.Fatalf("%s: %d %s", instruction, status, text)
	}
}

func TestPageShowsEachStepOfTheCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if !strings.Contains(r.page("/"), "No callback has come yet") {
		t.Error("the empty page does not say what to do")
	}
	r.tell(`{"path":"/in/good","secret":"` + secret + `"}`)
	r.tell(`{"path":"/in/bad","secret":"` + another + `"}`)
	for _, of := range []struct {
		path string
		want int
	}{{"/in/good", 200}, {"/in/bad", 401}, {"/in/unknown", 200}} {
		if status := r.callback(of.path, "evt_1", 1, secret); status != of.want {
			t.Errorf("%s answered %d, want %d", of.path, status, of.want)
		}
	}
	for n, want := range []string{"Signature verified", "Signature does not verify", "Signature not checked"} {
		page := r.page("/?n=" + strconv.Itoa(n+1))
		for _, text := range []string{
			"<h2>" + want + "</h2>", "the id of the event", "300 s are tolerated", "1 of version v1", "signature of id.timestamp.body",
			"&#34;n&#34;: 0.1000", "&lt;b&gt;", "Waybill-Delivery-Id",
		} {
			if !strings.Contains(page, text) {
				t.Errorf("callback %d: the page lacks %q", n+1, text)
			}
		}
		if strings.Contains(page, secret) || strings.Contains(page, another) || strings.Contains(page, "<b>\"") {
			t.Errorf("callback %d: the page shows a secret, or the body as HTML", n+1)
		}
	}
	if page := r.page("/"); !strings.Contains(page, `<a href="/?n=3" class="row selected"`) {
		t.Error("the newest is not the one that is shown")
	}
	r.tell(`{"path":"/in/unknown","secret":"` + secret + `"}`)
	if page := r.page("/?n=3"); !strings.Contains(page, "<h2>Signature verified</h2>") {
		t.Error("a secret that is given later does not count for what came before")
	}
	r.receiver.Found(map[string]receiver.Known{"/in/bad": {Secrets: keys(t, secret)}})
	if page := r.page("/?n=2"); !strings.Contains(page, "<h2>Signature verified</h2>") {
		t.Error("a secret that was found does not count beside the one that was given")
	}
}

// What a path was told to answer holds for wrong signatures, too, but for 2xx; and what the query of a callback asks for.
func TestAWrongSignatureIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tell(`{"path":"/in/told","secret":"` + another + `","status":503}`)
	r.tell(`{"path":"/in/told/202","secret":"` + another + `","status":202}`)
	for path, want := range map[string]int{"/in/told": 503, "/in/told/202": 401, "/in/told/202?status=200": 200, "/in/told?times=1&status=500": 500} {
		if status := r.callback(path, "evt_"+strconv.Itoa(want), 1, secret); status != want {
			t.Errorf("%s answered %d, want %d", path, status, want)
		}
	}
}

func keys(t *testing.T, texts ...string) []signature.Key {
	t.Helper()
	list := make([]signature.Key, len(texts))
	for i, text := range texts {
		var err error
		if list[i], err = signature.ParseSecret(text); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func TestAnswersAsItIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tell(`{"path":"/in/told","status":503,"times":2}`)
	statuses := func(path string, ids ...string) (list []int) {
		for _, id := range ids {
			list = append(list, r.callback(path, id, 1, secret))
		}
		return list
	}
	for _, row := range []struct {
		path string
		want []int
	}{
		{"/in/told", []int{503, 503, 503, 503, 200, 200}},
		{"/in/asked?status=500&times=1", []int{500, 500, 200, 200, 200, 200}},
		{"/in/always?status=410", []int{410, 410, 410, 410, 410, 410}},
		{"/in/wrong?status=999", []int{400, 400, 400, 400, 400, 400}},
		{"/in/wrong?delay=soon", []int{400, 400, 400, 400, 400, 400}},
	} {
		if diff := cmp.Diff(row.want, statuses(row.path, "a", "b", "a", "b", "a", "b")); diff != "" {
			t.Errorf("%s: statuses of two events in turn (-want +got):\n%s", row.path, diff)
		}
	}
	started := time.Now()
	if status := r.callback("/in/slow?delay=300ms", "a", 1, secret); status != http.StatusOK || time.Since(started) < 300*time.Millisecond {
		t.Errorf("delayed answer: %d after %s", status, time.Since(started))
	}
}

func TestFormDoesWhatTheJSONDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	form := url.Values{"path": {"/in/form"}, "secret": {secret}, "status": {"503"}, "delay": {"0.01"}, "times": {"1"}}
	status, header, _ := r.do(http.MethodPost, "/-/paths", form.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	if status != http.StatusSeeOther || header.Get("Location") != "/" {
		t.Fatalf("form: %d to %q", status, header.Get("Location"))
	}
	if got := r.callback("/in/form", "a", 1, secret); got != http.StatusServiceUnavailable {
		t.Errorf("answered %d", got)
	}
	if page := r.page("/"); !strings.Contains(page, "answers 503 after 10ms, 1× for each event, then 200") || !strings.Contains(page, "checks signatures") {
		t.Error("the page does not say what the path does")
	}
	if status, _, _ := r.do(http.MethodPost, "/-/clear", "", nil); status != http.StatusSeeOther || len(r.receiver.Callbacks()) != 0 {
		t.Errorf("clear: %d, %d callbacks left", status, len(r.receiver.Callbacks()))
	}
	for _, bad := range []string{
		`{"path":"in"}`, `{"path":"/-/x"}`, `{"path":"/a","status":99}`, `{"path":"/a","delaySeconds":31}`, `{"path":"/a","times":-1}`,
		`{"path":"/a","secret":"hush"}`, `{"path":"/a","unknown":1}`, `nonsense`,
	} {
		status, _, text := r.do(http.MethodPost, "/-/paths", bad, http.Header{"Content-Type": {"application/json"}})
		if status != http.StatusBadRequest || strings.Contains(text, "hush") {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
}

func TestCallbacksAsJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tell(`{"path":"/in/a","secret":"` + secret + `"}`)
	r.callback("/in/a", "evt_1", 2, secret)
	r.callback("/in/b", "evt_2", 1, secret)
	_, _, text := r.do(http.MethodGet, "/-/callbacks?path=/in/a", "", nil)
	var got struct {
		Data []struct {
			Number   int
			Path     string
			Body     string
			Verified *bool
			Headers  map[string]string
			Steps    []struct {
				Name string
				OK   bool
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Data) != 1 || got.Data[0].Verified == nil || !*got.Data[0].Verified || len(got.Data[0].Steps) != 4 ||
		got.Data[0].Headers["Waybill-Attempt"] != "2" || !strings.Contains(got.Data[0].Body, `0.1000,"<b>"`) {
		t.Errorf("callbacks: %s", text)
	}
	status, _, body := r.do(http.MethodGet, "/-/callbacks/1/body", "", nil)
	if status != http.StatusOK || body != got.Data[0].Body {
		t.Errorf("body: %d %q", status, body)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 205 {
		r.do(http.MethodPost, "/x", "{}", nil)
	}
	if list := r.receiver.Callbacks(); len(list) != 200 || list[0].Number != 205 {
		t.Errorf("%d callbacks are kept, the newest is %d", len(list), list[0].Number)
	}
	large := string(bytes.Repeat([]byte("x"), 2<<20))
	for range 17 {
		r.do(http.MethodPost, "/x", large, nil)
	}
	if list := r.receiver.Callbacks(); len(list) != 16 {
		t.Errorf("%d callbacks of 2 MiB are kept", len(list))
	}
	if status, _, _ := r.do(http.MethodPost, "/x", large+"x", nil); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large: %d", status)
	}
}

func TestOtherSitesAreKeptOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	instruction := `{"path":"/a","status":500}`
	for name, header := range map[string]http.Header{
		"a form of another site": {"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"cross-site"}},
		"another origin":         {"Content-Type": {"application/json"}, "Origin": {"https://evil.example"}},
		"another name":           {"Content-Type": {"application/json"}, "Host": {"evil.example"}},
	} {
		if status, _, _ := r.do(http.MethodPost, "/-/paths", instruction, header); status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status, _, _ := r.do(http.MethodGet, "/", "", http.Header{"Host": {"evil.example"}}); status != http.StatusForbidden {
		t.Errorf("the page under another name: %d", status)
	}
	if status, _, _ := r.do(http.MethodPost, "/in/x", "{}", http.Header{"Host": {"receiver:8090"}}); status != http.StatusOK {
		t.Errorf("a callback under another name: %d", status)
	}
}

func TestCallbacksAreAnnounced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/-/live", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || lines.Text() != "retry: 1000" || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("stream begins with %q", lines.Text())
	}
	r.callback("/in/a", "evt_1", 1, secret)
	for lines.Scan() {
		if lines.Text() == "data: 1" {
			return
		}
	}
	t.Errorf("the callback was not announced: %v", lines.Err())
}

// A body that grows when it is indented does not make a page of 200 MB, and the page says
// that it shows the beginning alone. Others are shown whole, and as encoding/json has them.
func TestPageOfABodyThatGrows(t *testing.T) {
	t.Parallel()
	const whole = "too long to be shown whole"
	for name, body := range map[string]string{
		"deep":           strings.Repeat("[", 9000) + "0" + strings.Repeat("]", 9000),
		"wide and deep":  strings.Repeat("[", 64) + strings.Repeat("0,", 500_000) + "0" + strings.Repeat("]", 64),
		"quotes":         `["` + strings.Repeat(`\"`, 900_000) + `"]`,
		"not JSON":       strings.Repeat("<", 2<<20-1),
		"not text":       strings.Repeat("\xff", 2<<20-1),
		"no end of them": strings.Repeat("[", 2<<20-1),
	} {
		r := newRig(t)
		r.do(http.MethodPost, "/in/demo", body, nil)
		if page := r.page("/"); len(page) > 8<<20 || !strings.Contains(page, whole) {
			t.Errorf("%s: a page of %d bytes that says so: %t", name, len(page), strings.Contains(page, whole))
		}
	}
	for _, body := range []string{
		`{"a":[1,2.50,{"b":null},[],{}, [ ] ,{"\"c\\":"[{,:}]"}],"d":true}`, ` [ ] `, `"x"`, `{"a":{"b":{"c":[[0]]}}}`, `{"type":"ü"}`,
	} {
		r := newRig(t)
		r.do(http.MethodPost, "/in/demo", body, nil)
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(strings.TrimSpace(body)), "", "  "); err != nil {
			t.Fatal(err)
		}
		if page := html.UnescapeString(r.page("/")); !strings.Contains(page, ">"+want.String()+"</code></pre>") || strings.Contains(page, whole) {
			t.Errorf("%s is not shown as\n%s", body, want.String())
		}
	}
}
