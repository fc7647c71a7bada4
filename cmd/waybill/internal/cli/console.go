package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/terminal"
)

// consoleLink is the answer to POST /console/links.
type consoleLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func (a *app) console() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Print a link that signs you in to the console",
		Long: "Prints a link that signs a browser in to the console, as the key with which this\n" +
			"command calls the installation. The link works once, within a minute, and the key\n" +
			"is not in it.",
		Example: "  waybill console\n  waybill console --server https://hooks.example.com",
		Args:    cobra.NoArgs,
	}
	where := addTarget(cmd)
	form := addOutput(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		answer, err := c.Do(cmd.Context(), http.MethodPost, "/console/links", nil)
		if err != nil {
			return err
		}
		var link consoleLink
		if err := json.Unmarshal(answer, &link); err != nil {
			return fmt.Errorf("read link: %w", err)
		}
		if !strings.Contains(link.URL, "/console/enter#") {
			return errors.New("the answer has no link to the console")
		}
		if *form == asJSON {
			return terminal.JSON(a.stdout, link)
		}
		fmt.Fprintln(a.stdout, terminal.Clean(link.URL))
		a.note("It works once, within a minute.")
		return nil
	})
	return cmd
}
