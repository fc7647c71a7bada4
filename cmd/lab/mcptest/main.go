// Command mcptest holds gateways to what others say about MCP: it runs the official
// conformance suite, and goes through their resources, tools and prompts with clients that
// others made. And it measures how many requests a second they answer.
//
// `make mcp-conformance` and `make bench-mcp` run it, with the Node packages in place.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `mcptest conformance -tools DIR   run the suite, and the clients against its fixtures and against Waybill
mcptest bench                    measure requests a second, beside the bare SDK
mcptest serve -routes DIR        serve a gateway alone, with the module "conformance"
mcptest sdk                      serve what bench asks for from the bare SDK
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcptest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("say what to do:\n%s", strings.TrimSpace(usage))
	}
	switch args[0] {
	case "conformance":
		return runConformance(ctx, args[1:], os.Stdout)
	case "bench":
		return runBench(ctx, args[1:], os.Stdout)
	case "serve":
		return runServe(ctx, args[1:])
	case "sdk":
		return runSDK(ctx, args[1:])
	default:
		return fmt.Errorf("there is no %q:\n%s", args[0], strings.TrimSpace(usage))
	}
}
