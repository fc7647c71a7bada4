package docstest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFiguresOfMCP holds the figures in the page on AI clients to what a fresh installation says.
func TestFiguresOfMCP(t *testing.T) {
	t.Parallel()
	dir, page := t.TempDir(), read(t, "docs/mcp.md")
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	buildWaybill(t, filepath.Join(dir, "bin", "waybill"))
	addresses := start(t, dir, subject{})
	key, err := os.ReadFile(filepath.Join(dir, ".waybill", "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string, body []byte) (status int, answer []byte) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addresses["127.0.0.1:8080"]+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Api-Key", strings.TrimSpace(string(key)))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if answer, err = io.ReadAll(response.Body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, answer
	}
	type list struct {
		Result struct {
			TTL   int `json:"ttlMs"`
			Tools []struct {
				Name        string `json:"name"`
				InputSchema struct {
					Properties map[string]struct {
						Default any `json:"default"`
					} `json:"properties"`
				} `json:"inputSchema"`
			} `json:"tools"`
		} `json:"result"`
	}
	tools := func(path string) (all list, size int) {
		t.Helper()
		_, answer := ask(path, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err := json.Unmarshal(answer, &all); err != nil || len(all.Result.Tools) == 0 {
			t.Fatalf("%s: %v: %s", path, err, answer)
		}
		return all, len(answer)
	}
	few, size := tools("/mcp")
	all, _ := tools("/mcp?tools=all")
	for _, figure := range []struct {
		says string
		is   int
	}{
		{`sees ([\d,]+) of them, and\nthree more`, len(few.Result.Tools) - 3},
		{`The list has some ([\d,]+) tokens, counted as 3\.5 bytes each`, (size*2/7 + 500) / 1000 * 1000},
		{`Clients may keep lists for ([\d,]+) seconds`, few.Result.TTL / 1000},
	} {
		if got := said(t, page, figure.says); got != figure.is {
			t.Errorf("docs/mcp.md says %d where the product says %d: %s", got, figure.is, figure.says)
		}
	}
	if most := said(t, page, `a key that may use more than ([\d,]+) tools`); len(all.Result.Tools) <= most || len(few.Result.Tools) > most {
		t.Errorf("of %d tools %d are listed, and docs/mcp.md says that more than %d are not", len(all.Result.Tools), len(few.Result.Tools), most)
	}
	shown := said(t, page, `A tool that lists shows ([\d,]+) entries`)
	for _, tool := range all.Result.Tools {
		if limit, ok := tool.InputSchema.Properties["limit"]; ok && strings.HasPrefix(tool.Name, "list_") && fmt.Sprint(limit.Default) != strconv.Itoa(shown) {
			t.Errorf("docs/mcp.md says that tools list %d entries; %s lists %v", shown, tool.Name, limit.Default)
		}
	}
	most := said(t, page, `A request has at most ([\d,]+) KiB`) << 10
	for length, refused := range map[int]bool{most: false, most + 1: true} {
		call := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		status, answer := ask("/mcp/docs", append(call, bytes.Repeat([]byte(" "), length-len(call))...))
		if (status == http.StatusRequestEntityTooLarge) != refused {
			t.Errorf("docs/mcp.md says that a request has at most %d bytes; one of %d was answered %d %s", most, length, status, answer)
		}
	}
}

// said returns the figure that a page has in a sentence.
func said(t *testing.T, page, sentence string) int {
	t.Helper()
	found := regexp.MustCompile(sentence).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page does not say: %s", sentence)
	}
	n, err := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
