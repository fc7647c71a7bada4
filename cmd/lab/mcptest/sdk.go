package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// runSDK serves what bench asks for from the bare SDK, set up as the gateway sets it up,
// until ctx ends.
func runSDK(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("sdk", flag.ContinueOnError)
	address := flags.String("listen", anyPort, "address to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	sdk := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	sdk.AddResource(&mcp.Resource{URI: benchURI, Name: "text", Title: "text", Description: "A text.", MIMEType: "text/plain"}, readBenchText)
	for _, tool := range benchToolList() {
		sdk.AddTool(&mcp.Tool{Name: tool.name, Title: tool.name, Description: tool.description, InputSchema: tool.schema}, callBenchTool)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	server, err := startServer(ctx, *address, handler)
	if err != nil {
		return err
	}
	defer server.close()
	fmt.Println(server.url) // for who started this process
	<-ctx.Done()
	return nil
}

func readBenchText(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: benchURI, MIMEType: "text/plain", Text: benchText}}}, nil
}

func callBenchTool(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: benchText}}}, nil
}
