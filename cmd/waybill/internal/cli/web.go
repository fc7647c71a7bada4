package cli

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/verb"
)

// addWeb adds --web to the command of a verb that the console has a page for.
func (act *action) addWeb(cmd *cobra.Command) {
	if act.Page(&verb.Input{}) != "" {
		cmd.Flags().BoolVar(&act.web, "web", false, "print the address of the console's page, and open it on a terminal")
	}
}

// openPage prints the address of the console's page for a verb's result. At a terminal, it opens the
// page in the browser.
func (a *app) openPage(act *action, c *client.Client) error {
	address := c.URL + act.Page(act.input)
	if _, err := fmt.Fprintln(a.stdout, terminal.Clean(address)); err != nil {
		return err
	}
	if !terminal.IsTerminal(a.stdout) || !terminal.IsTerminal(a.stdin) {
		return nil
	}
	opener := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if opener == nil {
		opener = []string{"xdg-open"}
	}
	program, err := exec.LookPath(opener[0])
	if err == nil {
		err = exec.CommandContext(context.Background(), program, append(opener[1:], address)...).Start() //nolint:gosec // the system's own program
	}
	if err != nil {
		a.note("No browser could be opened. Open the address yourself; %s console signs you in.", a.binary)
	}
	return nil
}
