package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/bundle"
	"waybill.dev/cmd/waybill/internal/verb"
	"waybill.dev/shared/domain"
)

const (
	// listedOut is how many of the left out files are listed.
	listedOut = 5
	// slowUpload is how long an upload takes before its progress is shown.
	slowUpload = 300 * time.Millisecond
)

// deploying has the flags of `deploy`.
type deploying struct {
	project, branch, account string
	wait                     time.Duration
}

func (a *app) deploy() *cobra.Command {
	var d deploying
	cmd := &cobra.Command{
		Use:   "deploy DIR --project PROJECT",
		Short: "Upload a folder of route files and serve it",
		Long: "Uploads a folder of route files, prints the log of the build as it grows, and at\n" +
			"the end the URL at which the routes are served. Ends with exit code 1 if the\n" +
			"build fails; what was served before is then still served.\n\n" +
			"The project must exist. Each branch of it has a deployment at a URL of its own,\n" +
			"which stays the same. Files that .gitignore or .waybillignore name are not\n" +
			"uploaded.",
		Example: "  waybill projects create shop\n" +
			"  waybill deploy ./shop --project shop\n" +
			"  waybill deploy ./shop --project shop --branch try-this",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("give the folder with the route files: waybill deploy DIR --project PROJECT")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	where := addTarget(cmd)
	flags := cmd.Flags()
	flags.StringVar(&d.project, "project", "", "`name` of the project; required")
	flags.StringVar(&d.branch, "branch", "", "`name` of the branch; default: the one of git, without git "+domain.DefaultProductionBranch)
	flags.StringVar(&d.account, "account", "", "the account; default: that of the key")
	addWait(cmd, &d.wait)
	names := &action{Verb: verb.ProjectNames(), where: where, input: &verb.Input{}}
	_ = cmd.RegisterFlagCompletionFunc("project", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		names.account = d.account
		return names.complete(cmd, nil, typed)
	})
	form := addOutput(cmd)
	cmd.RunE = run(func(_ *cobra.Command, args []string) error {
		if d.project == "" {
			return usagef("--project is required")
		}
		if err := d.chooseBranch(args[0]); err != nil {
			return err
		}
		b, err := bundle.Make(args[0])
		if err != nil {
			return err
		}
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		return a.upload(ctx, c, d, args[0], b, *form)
	})
	return cmd
}

func addWait(cmd *cobra.Command, wait *time.Duration) {
	cmd.Flags().DurationVar(wait, "timeout", 5*time.Minute, "how long to wait for the end of the build")
}

// chooseBranch takes the branch of git if none is given.
func (d *deploying) chooseBranch(dir string) error {
	if d.branch != "" {
		return nil
	}
	head, err := gitHead(dir)
	if err != nil {
		return fmt.Errorf("find the branch of git: %w\n  Give one with --branch", err)
	}
	branch, onBranch := strings.CutPrefix(head, "ref: refs/heads/")
	switch {
	case head == "":
		d.branch = domain.DefaultProductionBranch
	case !onBranch:
		return usagef("git has no branch checked out in %s: give one with --branch", dir)
	default:
		d.branch = branch
	}
	return nil
}

// gitHead returns the content of git's HEAD for a folder; empty: the folder is in no repository.
func gitHead(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		place := filepath.Join(dir, ".git")
		info, err := os.Stat(place)
		switch {
		case err == nil && !info.IsDir(): // a work tree: the file contains the path of the folder
			text, err := os.ReadFile(place)
			if err != nil {
				return "", err
			}
			place = strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:"))
			if !filepath.IsAbs(place) {
				place = filepath.Join(dir, place)
			}
			fallthrough
		case err == nil:
			head, err := os.ReadFile(filepath.Join(place, "HEAD")) //nolint:gosec // where git itself looks
			return strings.TrimSpace(string(head)), err
		case filepath.Dir(dir) == dir:
			return "", nil
		}
		dir = filepath.Dir(dir)
	}
}

// upload sends a folder and follows the build.
func (a *app) upload(ctx context.Context, c *client.Client, d deploying, dir string, b *bundle.Bundle, form output) error {
	to := client.Source{Account: d.account, Project: d.project, Branch: d.branch}
	if to.Account == "" {
		var err error
		if to.Account, err = c.Account(ctx); err != nil {
			return err
		}
	}
	w := a.watch(c, to)
	w.say("Uploading %s to project %s, branch %s: %s, %s.", terminal.Clean(dir), terminal.Clean(d.project), terminal.Clean(d.branch), many(b.Files, "file"), bundle.Bytes(b.Size))
	if names := leftOut(b.LeftOut); names != "" {
		w.say("Left out: %s.", names)
	}
	begun := time.Now()
	accepted, err := c.Upload(ctx, to, bundle.ContentType, b.Archive, func(sent int64) {
		if time.Since(begun) > slowUpload {
			w.live.show("uploading: %s of %s", bundle.Bytes(sent), bundle.Bytes(int64(len(b.Archive))))
		}
	})
	w.live.clear()
	if err != nil {
		return a.explainUpload(err, to)
	}
	return w.end(ctx, accepted, d.wait, form)
}

// leftOut names the first files that are not uploaded.
func leftOut(names []string) string {
	var list []string
	for _, name := range names[:min(len(names), listedOut)] {
		list = append(list, terminal.Clean(name))
	}
	text := strings.Join(list, ", ")
	if more := len(names) - len(list); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// explainUpload adds the command that makes a project to the error of a missing project.
func (a *app) explainUpload(err error, to client.Source) error {
	if !client.IsStatus(err, http.StatusNotFound) {
		return err
	}
	return fmt.Errorf("account %s has no project %s\n  Make it: %s projects create %[2]s", terminal.Clean(to.Account), terminal.Clean(to.Project), a.binary)
}

// addDeployments adds the commands that follow or read a build to the verbs of deployments.
func (a *app) addDeployments(cmd *cobra.Command) {
	redeploy, rollback, log := a.redeploy(), a.rollback(), a.buildLog()
	cmd.AddCommand(redeploy, rollback, log)
	for _, c := range []*cobra.Command{redeploy, rollback, log} {
		first, _, _ := strings.Cut(c.Example, "\n")
		cmd.Example += "\n" + first
	}
}

func (a *app) redeploy() *cobra.Command {
	var build string
	var wait time.Duration
	v := verb.Verb{Name: "redeploy", Args: verb.DeploymentArg()}
	cmd := &cobra.Command{
		Use: "redeploy DEPLOYMENT", Short: "Build a deployment anew, or go back to an earlier build",
		Long: "Builds a deployment anew with the variables as they are now, and prints the log\n" +
			"as it grows. Without --build it takes the files that are served. With --build it\n" +
			"takes those of an earlier build: that is how to roll back. Ends with exit code 1\n" +
			"if the build fails; what was served before is then still served.",
		Example: "  waybill deployments redeploy shop-main-4zq2mw7k5a\n" +
			"  waybill deployments redeploy shop-main-4zq2mw7k5a --build 0198e5c2-…",
		Args: func(_ *cobra.Command, args []string) error { return counted(v, args) },
	}
	where := addTarget(cmd)
	act := &action{Verb: v, where: where, input: &verb.Input{}}
	cmd.ValidArgsFunction = act.complete
	cmd.Flags().StringVar(&build, "build", "", "`id` of the build whose files to take; default: the one that is served")
	addWait(cmd, &wait)
	form := addOutput(cmd)
	cmd.RunE = run(func(_ *cobra.Command, args []string) error {
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		d, err := c.Deployment(ctx, args[0])
		if err != nil {
			return err
		}
		if build != "" {
			if build, err = act.build(ctx, c, d.Name, build); err != nil {
				return err
			}
		}
		return a.rebuild(ctx, c, d, build, wait, *form)
	})
	return cmd
}

// rebuild builds a deployment again from the files of a build, and follows the new build.
func (a *app) rebuild(ctx context.Context, c *client.Client, d client.Deployment, build string, wait time.Duration, form output) error {
	accepted, err := c.Redeploy(ctx, d.Name, build)
	if err != nil {
		return err
	}
	accepted.URL = cmp.Or(accepted.URL, d.URL)
	w := a.watch(c, client.Source{Account: d.AccountName, Project: d.ProjectName, Branch: d.BranchName})
	return w.end(ctx, accepted, wait, form)
}

func (a *app) rollback() *cobra.Command {
	var wait time.Duration
	v := verb.Verb{Name: "rollback", Args: verb.BuildArgs()}
	cmd := &cobra.Command{
		Use: "rollback DEPLOYMENT [BUILD-ID]", Short: "Serve an earlier build again",
		Long: "Builds a deployment anew from the files of an earlier build, with the variables as\n" +
			"they are now. Without an id it takes the newest good build before the one that is\n" +
			"served. The beginning of an id is enough, and so is a build's number.",
		Example: "  waybill deployments rollback shop-main-4zq2mw7k5a\n  waybill deployments rollback shop-main-4zq2mw7k5a 3",
		Args:    func(_ *cobra.Command, args []string) error { return counted(v, args) },
	}
	where := addTarget(cmd)
	act := &action{Verb: v, where: where, input: &verb.Input{}}
	cmd.ValidArgsFunction = act.complete
	addWait(cmd, &wait)
	form := addOutput(cmd)
	cmd.RunE = run(func(_ *cobra.Command, args []string) error {
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		d, err := c.Deployment(ctx, args[0])
		if err != nil {
			return err
		}
		builds, err := c.Builds(ctx, d.Name)
		if err != nil {
			return err
		}
		to, err := earlier(d, builds, args[1:])
		if err != nil {
			return err
		}
		a.note("Rolling back to build %d.", to.Number)
		return a.rebuild(ctx, c, d, to.ID, wait, *form)
	})
	return cmd
}

// earlier returns the build to roll back to: the one with the given number or beginning of its id, otherwise
// the newest good one before the active one.
func earlier(d client.Deployment, builds []client.BuildLine, named []string) (client.BuildLine, error) {
	var found []client.BuildLine
	for _, b := range builds {
		switch {
		case b.Status != client.DeploymentSuccess:
		case len(named) > 0 && (strconv.Itoa(b.Number) == named[0] || b.ID == named[0]):
			return b, nil
		case len(named) > 0 && len(named[0]) >= shortest && strings.HasPrefix(b.ID, named[0]):
			found = append(found, b)
		case len(named) == 0 && d.Build != nil && b.Number < d.Build.Number && (len(found) == 0 || b.Number > found[0].Number):
			found = []client.BuildLine{b}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return client.BuildLine{}, usagef("%s is the beginning of %s", terminal.Clean(named[0]), many(len(found), "build"))
	case len(named) > 0:
		return client.BuildLine{}, fmt.Errorf("%s has no good build %s; see: waybill deployments builds %[1]s", terminal.Clean(d.Name), terminal.Clean(named[0]))
	}
	return client.BuildLine{}, fmt.Errorf("%s has no good build before the one that is served", terminal.Clean(d.Name))
}

func (a *app) buildLog() *cobra.Command {
	v := verb.Verb{Name: "log", Args: verb.BuildArgs()}
	cmd := &cobra.Command{
		Use: "log DEPLOYMENT [BUILD-ID]", Short: "Show the log of a build",
		Long:    "Prints the log of a build; without an id that of the newest.",
		Example: "  waybill deployments log shop-main-4zq2mw7k5a\n  waybill deployments log shop-main-4zq2mw7k5a 0198e5c2-… -o json",
		Args:    func(_ *cobra.Command, args []string) error { return counted(v, args) },
		Aliases: []string{"logs"},
	}
	where := addTarget(cmd)
	act := &action{Verb: v, where: where, input: &verb.Input{}}
	cmd.ValidArgsFunction = act.complete
	form := addOutput(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		if len(args) == 1 {
			d, err := c.Deployment(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if d.LastBuild == nil {
				return fmt.Errorf("%s has no build", terminal.Clean(d.Name))
			}
			args = append(args, d.LastBuild.ID)
		} else if args[1], err = act.build(cmd.Context(), c, args[0], args[1]); err != nil {
			return err
		}
		steps, text, err := c.BuildLog(cmd.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		if *form == asJSON {
			_, err := fmt.Fprintf(a.stdout, "%s\n", strings.TrimSpace(string(text)))
			return err
		}
		p := logPrinter{w: a.stdout, width: math.MaxInt}
		if columns := terminal.Columns(a.stdout); columns > 0 {
			p.width = columns
		}
		p.write(steps)
		return nil
	})
	return cmd
}
