package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"

	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
	"waybill.dev/cmd/lab/internal/stack"
)

// benched is a server on a processor of its own.
type benched struct {
	name    string
	address string
	pid     int
	stop    func()
}

// question is one of the requests that are counted. check looks at the answer once: all
// others must be the same.
type question struct {
	name   string
	body   string
	header string // lines of the request
	check  func(result json.RawMessage) error
}

// runBench measures requests a second: the servers one after the other on the first
// processor, with GOMAXPROCS=1, and the loader, which is this process, on the second. The
// last column divides by the processor time that the server took instead of by the clock's:
// it hardly changes when something else runs on the machine.
func runBench(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	duration := flags.Duration("duration", 5*time.Second, "duration of each measurement")
	connections := flags.Int("connections", 16, "how many connections send requests at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	forServer, forLoader, err := processors()
	if err != nil {
		return err
	}
	if err := pin(ctx, os.Getpid(), forLoader); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "waybill-mcp-bench-")
	if err != nil {
		return fmt.Errorf("make the working folder: %w", err)
	}
	defer os.RemoveAll(dir)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "server\trequest\tanswer\treq/s\tp50\tp99\treq per CPU second\t\n")
	for _, start := range []func(context.Context, string, string) (*benched, error){benchProduct, benchGateway, benchSDK} {
		server, err := start(ctx, dir, forServer)
		if err != nil {
			return err
		}
		err = server.measure(ctx, *duration, *connections, table)
		server.stop()
		if err != nil {
			return fmt.Errorf("measure %s: %w", server.name, err)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// benchProduct is Waybill as its users run it.
func benchProduct(ctx context.Context, dir, processor string) (*benched, error) {
	site, err := stack.NewSite(ctx, dir)
	if err != nil {
		return nil, err
	}
	routes, err := benchRoutes(dir)
	if err != nil {
		return nil, err
	}
	s, err := site.AllInOne(ctx, stack.Options{Routes: routes, Settings: map[string]string{"GOMAXPROCS": "1"}})
	if err != nil {
		return nil, err
	}
	stop := func() { _ = s.Close() }
	if err := pin(ctx, s.Waybill.Pid(), processor); err != nil {
		stop()
		return nil, err
	}
	return &benched{name: "waybill", address: strings.TrimPrefix(s.URL, "http://"), pid: s.Waybill.Pid(), stop: stop}, nil
}

// benchGateway is a gateway without the rest of Waybill.
func benchGateway(ctx context.Context, dir, processor string) (*benched, error) {
	routes, err := benchRoutes(dir)
	if err != nil {
		return nil, err
	}
	return benchSelf(ctx, "gateway alone", processor, "serve", "-routes", routes)
}

// benchSDK is the SDK without a gateway.
func benchSDK(ctx context.Context, _, processor string) (*benched, error) {
	return benchSelf(ctx, "bare SDK", processor, "sdk")
}

func benchRoutes(dir string) (string, error) {
	routes, err := os.MkdirTemp(dir, "routes-")
	if err != nil {
		return "", fmt.Errorf("make the routes folder: %w", err)
	}
	return routes, writeBenchRoutes(routes)
}

// benchSelf starts this program as a server, which prints its URL.
func benchSelf(ctx context.Context, name, processor string, args ...string) (*benched, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", processor, self}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	end := func() {
		stop()
		_ = cmd.Wait() // it was killed
	}
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		end()
		return nil, fmt.Errorf("start %s: read its URL: %w", name, err)
	}
	return &benched{name: name, address: strings.TrimPrefix(strings.TrimSpace(url), "http://"), pid: cmd.Process.Pid, stop: end}, nil
}

// measure puts each question to the server.
func (b *benched) measure(ctx context.Context, duration time.Duration, connections int, table io.Writer) error {
	for _, q := range questions() {
		request := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
			"Accept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", b.address, q.header, len(q.body), q.body)
		r := load.Repeat{Address: b.address, Request: request}
		first, err := r.Once(ctx)
		if err == nil {
			err = q.examine(first)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		r.Want, r.Connections, r.For = first, connections, duration/4
		if _, err := r.Run(ctx); err != nil { // it warms up
			return fmt.Errorf("%s: %w", q.name, err)
		}
		r.For = duration
		before, err := b.processorTime()
		if err != nil {
			return err
		}
		p, err := r.Run(ctx)
		if err == nil && p.Refused > 0 {
			err = fmt.Errorf("%d answers are other ones, such as %s", p.Refused, p.Fault)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		after, err := b.processorTime()
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\t%d B\t%.0f\t%.2f ms\t%.2f ms\t%.0f\t\n", b.name, q.name, len(first), p.PerSecond(),
			p.Latency.P50, p.Latency.P99, float64(p.Events)/(after-before).Seconds())
	}
	return nil
}

// processorTime returns what the server has taken of its processor since it started.
func (b *benched) processorTime() (time.Duration, error) {
	used, err := meter.CPU([]meter.Group{{Name: b.name, Pid: b.pid}})
	return used[b.name], err
}

// examine looks at an answer.
func (q question) examine(answer string) error {
	var message struct {
		ID     string
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.Unmarshal([]byte(answer), &message); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if message.ID != "1" || len(message.Error) > 0 {
		return fmt.Errorf("no such answer is expected: %.500s", answer)
	}
	return q.check(message.Result)
}

func questions() []question {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	call := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":"1","method":"` + method + `","params":{` + params + `}}`
	}
	modern := "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/read\r\nMcp-Name: " + benchURI + "\r\n"
	return []question{
		{"resources/read", call("resources/read", `"uri":"`+benchURI+`"`), "", checkRead},
		{"resources/read, 2026-07-28", call("resources/read", `"uri":"`+benchURI+`",`+meta), modern, checkRead},
		{"tools/list, 100 tools", call("tools/list", ""), "", checkList},
		{"tools/call", call("tools/call", `"name":"shipment_tool_007","arguments":{"shipmentId":"shp_1","limit":10}`), "", checkCall},
	}
}

func checkRead(result json.RawMessage) error {
	var r struct{ Contents []struct{ Text string } }
	if err := json.Unmarshal(result, &r); err != nil || len(r.Contents) != 1 || r.Contents[0].Text != benchText {
		return fmt.Errorf("read something else: %.500s", result)
	}
	return nil
}

func checkList(result json.RawMessage) error {
	var r struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(result, &r); err != nil || len(r.Tools) != benchTools {
		return fmt.Errorf("%d tools are listed", len(r.Tools))
	}
	return nil
}

func checkCall(result json.RawMessage) error {
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) != 1 || r.Content[0].Text != benchText {
		return fmt.Errorf("called something else: %.500s", result)
	}
	return nil
}
