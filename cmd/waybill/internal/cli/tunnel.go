package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/waybill/internal/agent"
	"waybill.dev/shared/domain"
)

const (
	tunnelToken   = "WAYBILL_TUNNEL_TOKEN"
	tunnelGateway = "WAYBILL_TUNNEL_GATEWAY"
	// maxTokenFile bounds the size of a token file, in bytes.
	maxTokenFile = 4 << 10
)

// tunnelling has the flags of `tunnel run`.
type tunnelling struct {
	gateway, tokenFile string
	allow              []string
	allowAny           bool
}

// addTunnels adds the commands that are not calls of the API to the verbs of tunnels.
func (a *app) addTunnels(cmd *cobra.Command) {
	run := a.tunnelRun()
	cmd.AddCommand(run)
	first, _, _ := strings.Cut(run.Example, "\n")
	cmd.Example += "\n" + strings.TrimSuffix(first, " \\")
}

func (a *app) tunnelRun() *cobra.Command {
	var t tunnelling
	cmd := &cobra.Command{
		Use: "run [--gateway URL] {--allow ORIGIN… | --allow-any}", Short: "Run the agent of a tunnel",
		Long: "Connects to a gateway and answers its requests from services that this machine\n" +
			"reaches. It takes no connections from outside. The token comes from the variable\n" +
			tunnelToken + " or from --token-file.\n\n" +
			"--allow names an origin, such as http://localhost:3000, that services may have;\n" +
			"give it once for each. A services configuration with another origin is refused.\n" +
			"With --allow-any the agent takes every service that a configuration names: then\n" +
			"whoever may change that reaches all that this machine reaches, its own ports\n" +
			"and a cloud's metadata address too.\n\n" +
			"It connects again when the connection breaks. If the gateway refuses the token,\n" +
			"it ends with exit code 1 and says why.",
		Example: "  waybill tunnel run --allow http://localhost:3000\n" +
			"  waybill tunnel run --gateway https://gateway.example.com --token-file token \\\n    --allow http://orders.internal:8080",
		Args: cobra.NoArgs,
	}
	where := addTarget(cmd)
	flags := cmd.Flags()
	flags.StringVar(&t.gateway, "gateway", "", "`URL` of a gateway; default: the address of --server")
	setVariable(flags, "gateway", tunnelGateway)
	flags.StringVar(&t.tokenFile, "token-file", "", "`file` with the token; -: standard input")
	flags.StringArrayVar(&t.allow, "allow", nil, "`origin` that services may have; repeatable")
	flags.BoolVar(&t.allowAny, "allow-any", false, "take every service that a configuration names: all that this machine reaches")
	cmd.RunE = run(func(*cobra.Command, []string) error {
		o, err := a.agentOptions(t, where)
		if err != nil {
			return err
		}
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		return agent.Run(ctx, o)
	})
	return cmd
}

func (a *app) agentOptions(t tunnelling, where *target) (agent.Options, error) {
	o := agent.Options{Version: a.version, Logger: slog.New(slog.NewTextHandler(a.stderr, nil))}
	base := t.gateway
	if base == "" {
		var err error
		if base, err = where.base(); err != nil {
			return o, err
		}
	}
	gateway, err := url.Parse(client.WithScheme(base))
	if err != nil || gateway.Hostname() == "" || gateway.Scheme != "http" && gateway.Scheme != "https" || gateway.User != nil || gateway.RawQuery != "" || gateway.Fragment != "" {
		return o, usagef("--gateway must be a URL such as https://gateway.example.com")
	}
	o.Gateway = gateway
	switch {
	case t.allowAny && len(t.allow) > 0:
		return o, usagef("give --allow or --allow-any, not both")
	case t.allowAny:
		o.AllowAny = true
		a.note("With --allow-any, whoever may configure this tunnel's services reaches all that this\nmachine reaches.")
	case len(t.allow) == 0:
		return o, usagef("name the origins that services may have: --allow http://HOST:PORT, once for each")
	}
	for _, text := range t.allow {
		origin, err := agent.ParseOrigin(text)
		if err != nil {
			return o, usage{fmt.Errorf("--allow %s: %w", text, err)}
		}
		o.Allow = append(o.Allow, origin)
	}
	o.Token, err = a.agentToken(t.tokenFile)
	return o, err
}

// agentToken reads the token. It is never an argument: other users of the machine would see it.
func (a *app) agentToken(file string) (domain.Secret, error) {
	if file == "" {
		if token := os.Getenv(tunnelToken); token != "" {
			return domain.Secret(token), nil
		}
		return "", usagef("give the tunnel's token, in %s or with --token-file", tunnelToken)
	}
	from := a.stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		defer func() { _ = opened.Close() }()
		from = opened
	}
	text, err := io.ReadAll(io.LimitReader(from, maxTokenFile))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("the file of --token-file has no token")
	}
	return domain.Secret(token), nil
}
