package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signature"
)

func (a *app) signature() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signature",
		Short: "Compute and check signatures of callbacks",
		Long:  "Computes and checks signatures by Standard Webhooks 1.0.0.",
		Example: "  waybill signature sign --secret whsec_… --id evt_1 --body event.json\n" +
			"  waybill signature verify --secret whsec_… --id evt_1 --body event.json \\\n" +
			"    --timestamp 1768469400 --signature v1,…",
		RunE: subcommands,
	}
	cmd.AddCommand(a.sign(), a.verify())
	return cmd
}

// callback is the content to sign, from the flags.
type callback struct {
	secrets   []string
	public    []string // public keys that check
	sets      []string // files and URLs of key sets
	id        string
	timestamp int64
	body      string
}

func addCallback(cmd *cobra.Command) *callback {
	c := &callback{}
	flags := cmd.Flags()
	flags.StringSliceVar(&c.secrets, "secret", nil, "signing secret, whsec_…; may be repeated: one signature for each")
	setVariable(flags, "secret", "WAYBILL_WEBHOOK_SECRET")
	flags.StringVar(&c.id, "id", "", "value of webhook-id")
	flags.StringVar(&c.body, "body", "-", "`file` with the body; -: standard input")
	return c
}

// keys parses the secrets; parse is strict for signing and lenient for checking.
func (c *callback) keys(parse func(string) (signature.Key, error)) ([]signature.Key, error) {
	keys := make([]signature.Key, 0, len(c.secrets))
	for _, secret := range c.secrets {
		key, err := parse(strings.TrimSpace(secret))
		if err != nil {
			return nil, usage{fmt.Errorf("--secret: %w", err)}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func (a *app) bodyOf(c *callback) ([]byte, error) {
	if c.body == "-" {
		if terminal.IsTerminal(a.stdin) {
			a.note("The body is read from standard input; Ctrl-D ends it.")
		}
		body, err := io.ReadAll(a.stdin)
		if err != nil {
			return nil, fmt.Errorf("read body: %w", err)
		}
		return body, nil
	}
	body, err := os.ReadFile(c.body)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return body, nil
}

func (a *app) sign() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sign",
		Short: "Print the headers of a signed callback",
		Long:  "Prints the three headers of a callback with this body. Every byte of the body\ncounts, line breaks included.",
		Example: "  waybill signature sign --secret whsec_… --id evt_1 --body event.json\n" +
			"  printf '{\"a\":1}' | waybill signature sign --secret whsec_… --id evt_1",
		Args: cobra.NoArgs,
	}
	c := addCallback(cmd)
	cmd.Flags().Int64Var(&c.timestamp, "timestamp", 0, "value of webhook-timestamp, Unix seconds; 0: now")
	form := addOutput(cmd)
	cmd.RunE = run(func(*cobra.Command, []string) error {
		keys, err := c.keys(signature.ParseSecret)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return usagef("--secret (or WAYBILL_WEBHOOK_SECRET) is required")
		}
		if !domain.ValidEventID(c.id) {
			return usagef("--id is required: 1 to 64 of A-Z a-z 0-9 _ -")
		}
		if c.timestamp < 0 {
			return usagef("--timestamp must be Unix seconds")
		}
		body, err := a.bodyOf(c)
		if err != nil {
			return err
		}
		at := time.Unix(c.timestamp, 0)
		if c.timestamp == 0 {
			at = time.Now()
		}
		return a.printHeaders(*form, []header{
			{signature.HeaderID, c.id},
			{signature.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10)},
			{signature.HeaderSignature, signature.NewSigner(keys...).Sign(c.id, at, body)},
		})
	})
	return cmd
}

type header struct{ name, value string }

func (a *app) printHeaders(form output, headers []header) error {
	if form == asJSON {
		object := make(map[string]string)
		for _, h := range headers {
			object[h.name] = h.value
		}
		return terminal.JSON(a.stdout, object)
	}
	for _, h := range headers {
		fmt.Fprintf(a.stdout, "%s: %s\n", h.name, h.value)
	}
	return nil
}

// verification is the result of verify as JSON.
type verification struct {
	Verified bool   `json:"verified"`
	Steps    []step `json:"steps"`
}

type step struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func (a *app) verify() *cobra.Command {
	var timestamp, signed string
	var clock int64
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the signature of a callback, step by step",
		Long: "Checks a callback as a receiver must, and says what is wrong with each header.\n" +
			"Ends with exit code 1 if it does not verify. To check an old callback, give the\n" +
			"time of its arrival with --at. A secret checks signatures of version v1, a\n" +
			"public key or a key set those of version v1a.",
		Example: "  waybill signature verify --secret whsec_… --id evt_1 --timestamp 1768469400 \\\n" +
			"    --signature v1,… --body event.json --at 1768469400\n" +
			"  waybill signature verify --public-key whpk_… --id evt_1 \\\n" +
			"    --timestamp 1768469400 --signature v1a,… --body event.json\n" +
			"  waybill signature verify --jwks keys.json --id evt_1 \\\n" +
			"    --timestamp 1768469400 --signature v1a,… --body event.json",
		Args: cobra.NoArgs,
	}
	c := addCallback(cmd)
	cmd.Flags().StringVar(&timestamp, "timestamp", "", "value of webhook-timestamp")
	cmd.Flags().StringVar(&signed, "signature", "", "value of webhook-signature")
	cmd.Flags().Int64Var(&clock, "at", 0, "the receiver's clock in Unix seconds; 0: now")
	cmd.Flags().StringSliceVar(&c.public, "public-key", nil, "public `key`, whpk_…, for version v1a; may be repeated")
	cmd.Flags().StringSliceVar(&c.sets, "jwks", nil, "`file` or URL of a JSON Web Key Set, for version v1a; may be repeated")
	form := addOutput(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		keys, err := c.checking(cmd.Context())
		if err != nil {
			return err
		}
		body, err := a.bodyOf(c)
		if err != nil {
			return err
		}
		now := time.Unix(clock, 0)
		if clock == 0 {
			now = time.Now()
		}
		headers := http.Header{}
		for name, value := range map[string]string{
			signature.HeaderID: c.id, signature.HeaderTimestamp: timestamp, signature.HeaderSignature: signed,
		} {
			if value != "" {
				headers.Set(name, value)
			}
		}
		result := verification{Verified: signature.Verify(headers, body, now, keys...) == nil}
		for _, s := range signature.VerifySteps(headers, body, now, keys...) {
			result.Steps = append(result.Steps, step(s))
		}
		if err := a.printVerification(*form, result); err != nil {
			return err
		}
		if !result.Verified {
			return errSilent
		}
		return nil
	})
	return cmd
}

func (a *app) printVerification(form output, v verification) error {
	if form == asJSON {
		return terminal.JSON(a.stdout, v)
	}
	style := a.style()
	mark := func(ok bool) string {
		if ok {
			return style.Good("✓")
		}
		return style.Bad("✗")
	}
	width := 0
	for _, s := range v.Steps {
		width = max(width, len(s.Name))
	}
	for _, s := range v.Steps {
		fmt.Fprintf(a.stdout, "%s %-*s  %s\n", mark(s.OK), width, s.Name, terminal.Clean(s.Detail))
	}
	verdict := style.Good("verified")
	if !v.Verified {
		verdict = style.Bad("not verified")
	}
	fmt.Fprintln(a.stdout, verdict)
	return nil
}
