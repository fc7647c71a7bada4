package apipart_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"waybill.dev/shared/domain"
)

const (
	latestDeliveries = "waybill://deliveries"
	problems         = "waybill://problems"
)

// follower is a client that has sent subscriptions/listen.
type follower struct {
	t      *testing.T
	status int
	header http.Header
	leave  func()
	ended  chan struct{} // closed when there is no more to read

	mu       sync.Mutex
	messages []map[string]any
	other    string // what came that is no event
}

// modern sends a message as clients of 2026-07-28 do.
func modern(ctx context.Context, url, key, method, params string) (*http.Response, error) {
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":7.50,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{
		"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method},
	}
	return http.DefaultTransport.RoundTrip(request)
}

// follow begins to follow resources.
func (r *rig) follow(key string, uris ...string) *follower {
	r.t.Helper()
	list, err := json.Marshal(uris)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	response, err := modern(ctx, r.url+"/mcp", key, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":`+string(list)+`},`)
	if err != nil {
		r.t.Fatal(err)
	}
	f := &follower{t: r.t, status: response.StatusCode, header: response.Header, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		defer func() { _ = response.Body.Close() }()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			f.line(lines.Text())
		}
	}()
	f.leave = func() {
		cancel()
		<-f.ended
	}
	r.t.Cleanup(f.leave)
	return f
}

func (f *follower) line(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, ok := strings.CutPrefix(text, "data: ")
	var message map[string]any
	if !ok || json.Unmarshal([]byte(data), &message) != nil {
		f.other += text + "\n"
		return
	}
	f.messages = append(f.messages, message)
}

// begun waits for the acknowledgement and returns what the client will be told of.
func (f *follower) begun() string {
	f.t.Helper()
	eventually(f.t, "the stream begins", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.messages) > 0
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	params, _ := f.messages[0]["params"].(map[string]any)
	if f.messages[0]["method"] != "notifications/subscriptions/acknowledged" || fmt.Sprint(params["_meta"]) != "map[io.modelcontextprotocol/subscriptionId:7.5]" {
		f.t.Fatalf("the stream begins with %v", f.messages[0])
	}
	return fmt.Sprint(params["notifications"])
}

// told returns the uris that the client was told of.
func (f *follower) told() (uris []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, message := range f.messages[1:] {
		if message["method"] != "notifications/resources/updated" {
			continue
		}
		params, _ := message["params"].(map[string]any)
		if fmt.Sprint(params["_meta"]) != "map[io.modelcontextprotocol/subscriptionId:7.5]" || len(params) != 2 {
			f.t.Errorf("told %v", message)
		}
		uris = append(uris, params["uri"].(string))
	}
	return uris
}

// ends waits for the end, which must be the result of the request.
func (f *follower) ends(why string) {
	f.t.Helper()
	select {
	case <-f.ended:
	case <-time.After(20 * time.Second):
		f.t.Errorf("a stream goes on: %s", why)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.messages[len(f.messages)-1]
	if result, _ := last["result"].(map[string]any); last["id"] != 7.5 || result["resultType"] != "complete" {
		f.t.Errorf("%s: the stream ends with %v", why, last)
	}
}

// A client is told that a resource has changed, reads it, and finds what is new. Another account is told of nothing.
func TestFollow(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		_, key := r.holder(r.bucket("ai-clients"), "follower", domain.ScopeMCP, domain.ScopeEventsRead, domain.ScopeWebhooksRead)
		second := r.secondAccount("second")
		told := make(chan string, 100)
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			ResourceUpdatedHandler: func(_ context.Context, n *mcp.ResourceUpdatedNotificationRequest) { told <- n.Params.URI },
		})
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.url + "/mcp", HTTPClient: &http.Client{Transport: bearer(key)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if resources := session.InitializeResult().Capabilities.Resources; resources == nil || !resources.Subscribe {
			t.Errorf("capabilities of resources: %+v", resources)
		}
		for _, uri := range []string{latestDeliveries, problems} {
			if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		theirs := r.follow(second, latestDeliveries, "WAYBILL://problems", "waybill://openapi", "waybill://none")
		if got := theirs.begun(); got != "map[resourceSubscriptions:[waybill://deliveries WAYBILL://problems]]" {
			t.Errorf("acknowledged: %s", got)
		}
		if theirs.header.Get("Content-Type") != "text/event-stream" || theirs.header.Get("X-Accel-Buffering") != "no" || theirs.header.Get("Cache-Control") != "no-store" {
			t.Errorf("the stream begins with %v", theirs.header)
		}

		// Processes learn that the account is watched a moment after the stream has begun.
		seen := map[string]int{}
		heard := func(uri string) bool {
			for {
				select {
				case one := <-told:
					seen[one]++
				default:
					return seen[uri] > 0
				}
			}
		}
		hook := ""
		eventually(t, "a webhook is told", func() bool {
			hook = r.register(plainWebhook).text("id")
			return heard(problems)
		})
		eventually(t, "a delivery is told", func() bool {
			r.do(http.MethodPost, "/v1/webhooks/"+hook+"/test", "").want(http.StatusAccepted)
			return heard(latestDeliveries)
		})
		test := r.do(http.MethodPost, "/v1/webhooks/"+hook+"/test", "").want(http.StatusAccepted).text("deliveryId")
		r.do(http.MethodPatch, "/v1/webhooks/"+hook, `{"active":false}`).want(http.StatusOK)
		for uri, id := range map[string]string{latestDeliveries: test, problems: hook} {
			read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			if err != nil || !strings.Contains(read.Contents[0].Text, id) {
				t.Errorf("%s has not what is new: %v %v", uri, read, err)
			}
		}
		if got := theirs.told(); len(got) > 0 {
			t.Errorf("another account is told of %v", got)
		}
		eventually(t, "their webhook is told", func() bool {
			r.do(http.MethodPost, "/v1/webhooks", plainWebhook, as(second)).want(http.StatusCreated)
			return slices.Contains(theirs.told(), "WAYBILL://problems")
		})
		if slices.Contains(theirs.told(), latestDeliveries) {
			t.Error("another account is told of a delivery, and has none")
		}
		// Of many changes it is told once a second.
		change := func() {
			r.do(http.MethodPost, "/v1/webhooks", plainWebhook, as(second)).want(http.StatusCreated)
		}
		already := len(theirs.told())
		for range 10 {
			change()
		}
		eventually(t, "it is told again and again", func() bool {
			change()
			return len(theirs.told()) >= already+3
		})
		if n, most := len(theirs.told()), int(time.Since(began)/time.Second)+1; n > most {
			t.Errorf("told %d times, want %d at most", n, most)
		}
	})
}

// bearer sends a key with each request.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(request)
}

// A stream ends with its key: when it is deleted, expires, or may not read what it follows any more. And it ends with the server.
func TestFollowingEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("ai-clients")
	scopes := []domain.Scope{domain.ScopeMCP, domain.ScopeEventsRead, domain.ScopeWebhooksRead}
	deleted, gone := r.holder(bucket, "deleted", scopes...)
	losing, lost := r.holder(bucket, "lost", scopes...)
	closing, closed := r.holder(bucket, "closed", scopes...)
	expiring, _ := r.holder(bucket, "expires", scopes...)
	short := r.do(http.MethodPost, expiring+"/keys", `{"expiresOn":"`+time.Now().Add(3*time.Second).UTC().Format(time.RFC3339Nano)+`"}`).want(http.StatusCreated).text("key")
	stays := r.follow(adminKey, problems, latestDeliveries)
	streams := map[string]*follower{
		"its key is deleted": r.follow(gone, latestDeliveries), "its key may not read it": r.follow(lost, problems, latestDeliveries),
		"its key may not use MCP": r.follow(closed, problems), "its key has expired": r.follow(short, problems),
	}
	for _, f := range streams {
		f.begun()
	}
	stays.begun()
	r.do(http.MethodDelete, deleted, "").want(http.StatusNoContent)
	r.do(http.MethodPatch, losing, `{"scopes":["mcp:use","webhooks:read"]}`).want(http.StatusOK)
	r.do(http.MethodPatch, closing, `{"scopes":["events:read","webhooks:read"]}`).want(http.StatusOK)
	for why, f := range streams {
		f.ends(why)
	}
	if left := r.follow(lost, latestDeliveries, problems); left.begun() != "map[resourceSubscriptions:[waybill://problems]]" {
		t.Errorf("a key follows more than it may read: %v", left.messages)
	}
	select {
	case <-stays.ended:
		t.Fatal("a stream has ended whose key has not")
	default:
	}

	r.server.Config.RegisterOnShutdown(r.service.EndStreams)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.server.Config.Shutdown(ctx); err != nil {
		t.Errorf("the server does not stop: %v", err)
	}
	stays.ends("the server has stopped")
}

// Streams of MCP count among those of the account, and what has no changes to tell ends at once.
func TestFollowingIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	second := r.secondAccount("second")
	const most = 64 // of an account in a process
	var all []*follower
	for range most - 1 {
		f := r.follow(adminKey, problems)
		f.begun()
		all = append(all, f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v1/live", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Api-Key", adminKey)
	live, err := http.DefaultTransport.RoundTrip(request)
	if err != nil || live.StatusCode != http.StatusOK {
		t.Fatalf("the last stream: %v %v", live, err)
	}
	defer func() { _ = live.Body.Close() }()
	refused := r.follow(adminKey, problems)
	<-refused.ended
	if refused.status != http.StatusTooManyRequests || refused.header.Get("Retry-After") == "" || !strings.Contains(refused.other, "RATE_LIMITED") {
		t.Errorf("one more stream: %d %v %s", refused.status, refused.header, refused.other)
	}
	r.do(http.MethodGet, "/v1/live", "").want(http.StatusTooManyRequests)
	if other := r.follow(second, problems); other.status != http.StatusOK {
		t.Errorf("another account: %d %s", other.status, other.other)
	}
	all[0].leave()
	eventually(t, "there is room again", func() bool { return r.follow(adminKey, problems).status == http.StatusOK })
	for _, f := range []*follower{r.follow(adminKey), r.follow(adminKey, "waybill://openapi", "x:"+strings.Repeat("x", 10_000))} {
		if f.begun() != "map[]" {
			t.Errorf("acknowledged: %v", f.messages)
		}
		f.ends("there is nothing to tell")
	}
	long := `["` + problems + `"],"more":"` + strings.Repeat("x", 64<<10) + `"` // a stream would hold it all
	for _, wrong := range []string{long, `7`, `"` + problems + `"`, `[7]`, `["` + problems + `",null]`} {
		response, err := modern(t.Context(), r.url+"/mcp", adminKey, "subscriptions/listen", `"notifications":{"resourceSubscriptions":`+wrong+`},`)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "-32602") {
			t.Errorf("%.100s: %d %s %v", wrong, response.StatusCode, body, err)
		}
	}
}

// Clients that begin with initialize have no stream to be told on: nothing offers them to subscribe.
func TestNothingIsFollowedWithInitialize(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	begun := r.mcp(adminKey, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "c", "version": "1"}})
	if capabilities, _ := begun.Result["capabilities"].(map[string]any); capabilities == nil || fmt.Sprint(capabilities["resources"]) != "map[]" {
		t.Errorf("initialize offers %v", begun.Result)
	}
	if refused := r.mcp(adminKey, "resources/subscribe", map[string]any{"uri": problems}); refused.Error == nil || refused.Error.Code != -32601 {
		t.Errorf("resources/subscribe: %+v", refused)
	}
}
