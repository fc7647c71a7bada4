package post_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/post"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/egress/hostile"
	"waybill.dev/shared/receiverauth"
	"waybill.dev/shared/transcript"
)

const canary = "canary-of-auth"

// client returns one that may post to loopback.
func client(t *testing.T) *egress.Client {
	t.Helper()
	policy := &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, HTTP: true}
	c := policy.NewClient(egress.Options{})
	t.Cleanup(c.Close)
	return c
}

// config is a webhook as the index has it.
func config(t *testing.T, target string, of *receiverauth.Auth, change ...func(*domain.Webhook)) *index.Config {
	t.Helper()
	w := &domain.Webhook{ID: "w", URL: target, Secret: domain.NewSecret(), Timeout: 5 * time.Second}
	if of != nil {
		var err error
		if w.Auth, err = of.Encode(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range change {
		c(w)
	}
	prepared, err := post.Prepare(w)
	if err != nil {
		t.Fatal(err)
	}
	return &index.Config{Webhook: w, Preparation: prepared}
}

func send(p *post.Poster, c *index.Config) deliver.Response {
	return p.Post(context.Background(), &deliver.Request{Config: c, Body: []byte(`{}`), ID: "evt_1", At: time.Now(), Attempt: 1, UserAgent: "Waybill/test"})
}

// receiver answers 200 to one value of Authorization, and notes all that came.
type receiver struct {
	mu   sync.Mutex
	good string
	got  []*http.Request
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, request)
	if request.Header.Get("Authorization") != r.good {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func (r *receiver) accept(value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.good = value
}

func (r *receiver) requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// oauth2 is a client of a token server.
func oauth2(server string) *receiverauth.Auth {
	return &receiverauth.Auth{Type: receiverauth.OAuth2, TokenURL: server, ClientID: "me:1", ClientSecret: canary + "+/", Scope: "a b", Audience: "x"}
}

// shown is what the log has of an attempt.
func shown(t *testing.T, r *deliver.Response) string {
	t.Helper()
	read, err := transcript.Decode(r.Transcript, transcript.Of{})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %+v %s", r.Error, read, r.Transcript)
}

func TestHeadersOfBasicAndBearer(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]*receiverauth.Auth{
		"Basic w6Q6cDp3":   {Type: receiverauth.Basic, Username: "ä", Password: "p:w"},
		"Bearer " + canary: {Type: receiverauth.Bearer, Token: canary},
		"":                 nil,
	} {
		at := &receiver{good: want}
		response := send(post.New(client(t)), config(t, serve(t, at), of))
		if response.Status != http.StatusOK || response.Class != domain.ClassOK {
			t.Errorf("%q: %+v", want, response)
		}
		read, err := transcript.Decode(response.Transcript, transcript.Of{})
		if err != nil {
			t.Fatal(err)
		}
		hidden := slices.ContainsFunc(read.Request, func(f transcript.Field) bool { return f.Name == "Authorization" && f.Hidden && f.Value == "" })
		if hidden != (of != nil) || strings.Contains(shown(t, &response), canary) {
			t.Errorf("%q is shown so: %+v", want, read.Request)
		}
	}
}

// A receiver that answers 200 has taken the callback, however much it says besides.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	at := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 50 {
			w.Header().Set(fmt.Sprintf("X-%02d", i), strings.Repeat("y", 1<<10))
		}
		_, _ = io.WriteString(w, strings.Repeat("z", 5<<10))
	}))
	r := send(post.New(client(t)), config(t, at, nil))
	kept, err := transcript.Decode(r.Transcript, transcript.Of{})
	if err != nil || r.Status != http.StatusOK || r.Class != domain.ClassOK || len(r.Body) != egress.MaxKept || !kept.Truncated || len(kept.Response) > 6 {
		t.Errorf("%d %s %s, %d bytes kept, truncated %t, %d headers, %v", r.Status, r.Class, r.Error, len(r.Body), kept.Truncated, len(kept.Response), err)
	}
}

func TestTokenIsSharedAndKept(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var form, header atomic.Value
	let := make(chan struct{})
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_ = r.ParseForm()
		form.Store(r.PostForm)
		header.Store(r.Header)
		<-let
		_, _ = fmt.Fprintf(w, `{"access_token":"t1","token_type":"bearer","expires_in":3600}`)
	}))
	at := &receiver{good: "Bearer t1"}
	p, c := post.New(client(t)), config(t, serve(t, at), oauth2(server))
	var attempts sync.WaitGroup
	for range 20 {
		attempts.Go(func() {
			if r := send(p, c); r.Status != http.StatusOK {
				t.Errorf("%+v", r)
			}
		})
	}
	close(let)
	attempts.Wait()
	if r := send(p, c); r.Status != http.StatusOK || asked.Load() != 1 {
		t.Errorf("%d tokens were asked for, then %+v", asked.Load(), r)
	}
	want := url.Values{"grant_type": {"client_credentials"}, "scope": {"a b"}, "audience": {"x"}}
	got, _ := form.Load().(url.Values)
	if got.Encode() != want.Encode() {
		t.Errorf("form %v", got)
	}
	h, _ := header.Load().(http.Header)
	name, password, _ := (&http.Request{Header: h}).BasicAuth()
	if name != "me%3A1" || password != canary+"%2B%2F" || h.Get("User-Agent") != "Waybill/test" || h.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("header %v", h)
	}
	// Another state of the webhook has a token of its own.
	send(p, config(t, serve(t, at), oauth2(server)))
	if asked.Load() != 2 {
		t.Errorf("%d tokens were asked for, want 2", asked.Load())
	}
}

func TestTokenByBody(t *testing.T) {
	t.Parallel()
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.PostFormValue("client_id") != "me:1" || r.PostFormValue("client_secret") != canary+"+/" || r.PostFormValue("scope") != "a b" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"t1"}`)
	}))
	if r := send(post.New(client(t)), config(t, serve(t, &receiver{good: "Bearer t1"}), oauth2(server))); r.Status != http.StatusOK {
		t.Errorf("%+v", r)
	}
}

// A 401 gets a new token once, within the attempt.
func TestTokenIsRenewedAfter401(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"access_token":"t%d","expires_in":"3600"}`, asked.Add(1))
	}))
	at := &receiver{good: "Bearer t2"}
	p, c := post.New(client(t)), config(t, serve(t, at), oauth2(server))
	if r := send(p, c); r.Status != http.StatusOK || asked.Load() != 2 {
		t.Errorf("%d tokens, %+v", asked.Load(), r)
	}
	requests := at.requests()
	if len(requests) != 2 || requests[0].Header.Get("Webhook-Id") != "evt_1" || requests[1].Header.Get("Webhook-Id") != "evt_1" ||
		len(requests[1].Header.Values("Authorization")) != 1 || requests[0].Header.Get("Waybill-Attempt") != requests[1].Header.Get("Waybill-Attempt") {
		t.Errorf("%d requests: %v", len(requests), requests)
	}
	at.accept("nothing")
	r := send(p, c)
	if r.Status != http.StatusUnauthorized || r.Class != domain.Class4xx || len(at.requests()) != 4 || asked.Load() != 3 {
		t.Errorf("a receiver that keeps answering 401: %d requests, %d tokens, %+v", len(at.requests()), asked.Load(), r)
	}
	// Many at once: those that find a new token use it, and ask for no other.
	at.accept("Bearer t4")
	var attempts sync.WaitGroup
	for range 20 {
		attempts.Go(func() {
			if r := send(p, c); r.Status != http.StatusOK {
				t.Errorf("%+v", r)
			}
		})
	}
	attempts.Wait()
	if asked.Load() != 4 {
		t.Errorf("%d tokens were asked for, want 4", asked.Load())
	}
}

// Whatever a token server does, the attempt ends in time, has the class auth, and tells
// nothing that is secret or of the server's words.
func TestTokenServersThatFail(t *testing.T) {
	t.Parallel()
	says := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for _, tc := range []struct {
		name, want string
		handler    http.HandlerFunc
	}{
		{"refuses", "answered 401 (invalid_client)", says(401, `{"error":"invalid_client","error_description":"`+canary+`"}`)},
		{"own words", "answered 400", says(400, `{"error":"`+canary+`"}`)},
		{"fails", "answered 500", says(500, canary)},
		{"redirects", "answered 302", says(302, "")},
		{"created", "answered 201", says(201, `{"access_token":"t"}`)},
		{"no JSON", "its answer has no access_token", says(200, canary)},
		{"another token", "its token is not of the type Bearer", says(200, `{"access_token":"`+canary+`","token_type":"mac"}`)},
		{"number", "its answer has no access_token", says(200, `{"access_token":1}`)},
		{"two headers", "its token can't stand in a header", says(200, `{"access_token":"`+canary+`\r\nX-Evil: 1"}`)},
		{"too long", "its token can't stand in a header", says(200, `{"access_token":"`+strings.Repeat("x", 9<<10)+`"}`)},
		{"endless", "its answer has no access_token", says(200, `{"access_token":"`+strings.Repeat("x", 64<<10)+`"}`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			at := &receiver{}
			r := send(post.New(client(t)), config(t, serve(t, at), oauth2(serve(t, tc.handler))))
			if r.Status != 0 || r.Class != domain.ClassAuth || r.Failure != "auth" || r.Error != "no token for the receiver: the token server: "+tc.want {
				t.Errorf("%+v", r)
			}
			if len(at.requests()) != 0 || strings.Contains(shown(t, &r), canary) || strings.Contains(r.Body, canary) {
				t.Errorf("%d requests, shown: %s", len(at.requests()), shown(t, &r))
			}
		})
	}
	for _, sink := range hostile.Sinks() {
		if sink.Name == "gzip bomb" { // it takes seconds to make; package egress shows that nothing is decompressed
			continue
		}
		t.Run(sink.Name, func(t *testing.T) {
			t.Parallel()
			short := func(w *domain.Webhook) { w.Timeout = 300 * time.Millisecond }
			at := &receiver{}
			began := time.Now()
			r := send(post.New(client(t)), config(t, serve(t, at), oauth2(sink.Start(t)), short))
			if r.Class != domain.ClassAuth || r.Status != 0 || r.Error == "" || len(at.requests()) != 0 {
				t.Errorf("%d requests, %+v", len(at.requests()), r)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	t.Run("forbidden address", func(t *testing.T) {
		t.Parallel()
		r := send(post.New(client(t)), config(t, serve(t, &receiver{}), oauth2("http://10.0.0.1/token")))
		if r.Class != domain.ClassAuth || !strings.Contains(r.Error, egress.ErrAddress.Error()) {
			t.Errorf("%+v", r)
		}
	})
}

// The answer 401 is still in the transcript when no new token is to be had.
func TestRenewalThatFails(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"`+canary+`","expires_in":3600}`)
	}))
	r := send(post.New(client(t)), config(t, serve(t, &receiver{good: "never"}), oauth2(server)))
	if r.Status != 0 || r.Class != domain.ClassAuth || !strings.HasSuffix(r.Error, "answered 503") || !strings.Contains(shown(t, &r), "Authorization") || strings.Contains(shown(t, &r), canary) {
		t.Errorf("%+v: %s", r, shown(t, &r))
	}
}

// The attempt's time covers all of it: here the token comes late, and the receiver never.
func TestOneTimeForAll(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	slow := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-gone:
		case <-r.Context().Done():
		}
	}
	at := httptest.NewServer(http.HandlerFunc(slow))
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"access_token":"t"}`) }))
	defer at.Close()
	defer close(gone)
	began := time.Now()
	r := send(post.New(client(t)), config(t, at.URL, oauth2(server), func(w *domain.Webhook) { w.Timeout = 400 * time.Millisecond }))
	if took := time.Since(began); r.Class != domain.ClassTimeout || took < 350*time.Millisecond || took > 5*time.Second {
		t.Errorf("%s, %+v", took, r)
	}
}

// answers is a client that answers without a network, so that time can be made to pass.
type answers func(*egress.Request) egress.Response

func (a answers) Post(_ context.Context, r *egress.Request) egress.Response { return a(r) }

// How long a token is used follows from what its server says, be that true or not.
func TestLifeOfTokens(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		life string // expires_in
		want time.Duration
	}{
		{`3600`, 59 * time.Minute}, {`"3600"`, 59 * time.Minute}, {`61.5`, 1500 * time.Millisecond}, {`60`, 0}, {`0`, 0}, {`-5`, 0}, {`"-1e9"`, 0},
		{`1e12`, 24*time.Hour - time.Minute}, {`null`, 5 * time.Minute}, {`"soon"`, 5 * time.Minute}, {`"NaN"`, 5 * time.Minute}, {`[]`, 5 * time.Minute}, {``, 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			p := post.New(answers(func(r *egress.Request) egress.Response {
				if r.URL != "http://token" {
					return egress.Response{Status: http.StatusOK}
				}
				asked++
				answer := map[string]any{"access_token": "t"}
				if tc.life != "" {
					answer["expires_in"] = json.RawMessage(tc.life)
				}
				body, _ := json.Marshal(answer)
				return egress.Response{Status: http.StatusOK, Body: string(body)}
			}))
			c := config(t, "http://hook", oauth2("http://token"))
			send(p, c)
			if tc.want > 0 {
				<-time.After(tc.want - time.Millisecond)
				send(p, c)
				if asked != 1 {
					t.Errorf("expires_in %s: %d tokens before its end", tc.life, asked)
				}
			}
			<-time.After(time.Millisecond)
			send(p, c)
			if asked != 2 {
				t.Errorf("expires_in %s: %d tokens after its end, want 2", tc.life, asked)
			}
		})
	}
}
