package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
)

func (a *app) health() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health [URL]",
		Short: "Ask a process whether it is ready",
		Long: "Asks a process whether it is ready, and ends with exit code 0 or 1. If the URL\n" +
			"has no path, /readyz is asked. For containers without a shell and curl.",
		Example: "  waybill health\n  waybill health http://127.0.0.1:8081\n  waybill health http://127.0.0.1:8080/healthz",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for an answer")
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		url := defaultServer
		if len(args) == 1 {
			url = client.WithScheme(args[0])
		}
		scheme, rest, ok := strings.Cut(url, "://")
		if !ok {
			return usagef("%q is not a URL such as %s", terminal.Clean(url), defaultServer)
		}
		if host, path, _ := strings.Cut(rest, "/"); path == "" {
			url = scheme + "://" + host + "/readyz"
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return usagef("%q is not a URL such as %s", terminal.Clean(url), defaultServer)
		}
		response, err := client.NewHTTP().Do(request)
		if err != nil {
			return client.NoAnswer(url, err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		answer := terminal.Clean(strings.TrimSpace(string(text)))
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %d %s", response.StatusCode, answer)
		}
		fmt.Fprintln(a.stdout, answer)
		return nil
	})
	return cmd
}
