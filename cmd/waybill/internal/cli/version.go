package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/terminal"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  waybill version\n  waybill version -o json",
		Args:    cobra.NoArgs,
	}
	form := addOutput(cmd)
	cmd.RunE = run(func(*cobra.Command, []string) error {
		if *form == asJSON {
			return terminal.JSON(a.stdout, map[string]string{"version": a.version, "go": runtime.Version(), "platform": platform})
		}
		fmt.Fprintln(a.stdout, a.versionLine())
		return nil
	})
	return cmd
}

const platform = runtime.GOOS + "/" + runtime.GOARCH

func (a *app) versionLine() string {
	return fmt.Sprintf("waybill %s (%s, %s)", a.version, runtime.Version(), platform)
}
