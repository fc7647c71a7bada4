package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
)

// The variables for the installation, its key, and the form of output. Commands that only call an
// installation read no other variables: the environment never says what a command changes.
const (
	serverVariable = "WAYBILL_SERVER"
	keyVariable    = "WAYBILL_KEY"
	outputVariable = "WAYBILL_OUTPUT"
	// formerVariable is the earlier name of serverVariable.
	formerVariable = "WAYBILL_URL"

	defaultServer   = "http://127.0.0.1:8080"
	defaultReceiver = "http://127.0.0.1:8090"
	defaultData     = "./.waybill"
)

// target says which installation a command works with.
type target struct {
	server, key, data, context string
	flags                      *pflag.FlagSet
}

// addTarget adds the flags that name an installation.
func addTarget(cmd *cobra.Command) *target {
	t := &target{flags: cmd.Flags()}
	t.flags.StringVar(&t.server, "server", "", "`URL` of the installation; default: the one that runs in the data directory, else "+defaultServer)
	t.flags.StringVar(&t.key, "key", "", "API `key`; default: the one in the data directory, for the installation there")
	t.flags.StringVar(&t.data, "data", defaultData, "data `directory` of waybill dev")
	t.flags.StringVar(&t.context, "context", "", "`name` of a context that has both (see waybill context)")
	_ = cmd.RegisterFlagCompletionFunc("context", contextNames)
	setVariable(t.flags, "server", serverVariable)
	setVariable(t.flags, "key", keyVariable)
	setVariable(t.flags, "data", settings.DataDir)
	return t
}

// named returns the key in a flag or variable, and the name of that; empty: there is none.
func (t *target) named() (key domain.Secret, from string) {
	switch {
	case t.key == "":
		return "", ""
	case t.flags.Changed("key"):
		return domain.Secret(t.key), "the flag --key"
	}
	return domain.Secret(t.key), "the variable " + keyVariable
}

// base returns the address of the installation. The address in a data directory is used only with the
// key beside it. A user who gives a key also gives the server, or means the default one.
func (t *target) base() (string, error) {
	if t.server != "" {
		return serverURL(t.server)
	}
	if key, _ := t.named(); key != "" {
		return defaultServer, nil
	}
	running, err := datadir.Announced(t.data)
	if errors.Is(err, fs.ErrNotExist) {
		return defaultServer, nil
	}
	return running.API, err
}

// serverURL parses the address of an installation. Without a scheme it is http, but only on this
// machine: a missing scheme must not send a key unencrypted over a network.
func serverURL(text string) (string, error) {
	u, err := url.Parse(client.WithScheme(text))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", usagef("--server must be a URL such as %s", defaultServer)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// access returns the installation with its key: the given key, otherwise the bootstrap key in this
// environment, otherwise the key that `waybill dev` stores for its own address. A key is sent only to
// the address with which it was stored or given.
func (t *target) access() (client.Access, error) {
	if one, name, err := t.chosen(); err != nil || one != nil {
		if err != nil {
			return client.Access{}, err
		}
		return client.Access{URL: one.Server, Key: one.secret(), From: "the context " + name}, nil
	}
	base, err := t.base()
	if err != nil {
		return client.Access{}, err
	}
	key, from := t.named()
	if boot := os.Getenv(settings.AdminKey); key == "" && boot != "" && (t.server != "" || base == defaultServer) {
		key, from = domain.Secret(boot), "the variable "+settings.AdminKey
	}
	if key != "" {
		if t.server == "" && os.Getenv(formerVariable) != "" {
			return client.Access{}, usagef("%s is no longer read: name the installation with --server or %s", formerVariable, serverVariable)
		}
		return client.Access{URL: base, Key: key, From: from, Hint: t.hint()}, nil
	}
	key, err = t.stored(base)
	if err != nil {
		return client.Access{}, err
	}
	return client.Access{URL: base, Key: key, From: "the file " + filepath.Join(t.data, datadir.AdminKey)}, nil
}

// hint helps a user who gave a key but no server while an installation runs in the data directory.
// That installation's address is not used with the given key.
func (t *target) hint() string {
	running, err := datadir.Announced(t.data)
	if t.server != "" || err != nil || running.API == defaultServer {
		return ""
	}
	return "A key that you name is sent to --server, else to " + defaultServer + ". If the key belongs to the installation in " + t.data + ", add --server " + terminal.Clean(running.API)
}

// stored returns the key in the data directory, if base is the address of the installation that runs
// there.
func (t *target) stored(base string) (domain.Secret, error) {
	const give = "give one with --key or " + keyVariable
	running, err := datadir.Announced(t.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(t.data, datadir.AdminKey)); err == nil {
			return "", fmt.Errorf("no installation runs in %s. Start it with: waybill dev\n  For another installation %s, and its address with --server or %s",
				t.data, give, serverVariable)
		}
		return "", errors.New("no API key: " + give + ", or name the data directory of a `waybill dev` with --data")
	case err != nil:
		return "", err
	case running.API != base:
		return "", fmt.Errorf("no API key for %s: %s\n  The key in %s belongs to %s", base, give, t.data, running.API)
	}
	key, err := datadir.ReadKey(t.data, datadir.AdminKey)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no API key: the installation in %s was started with a key that it does not keep. %s, and its address with --server %s",
			t.data, strings.ToUpper(give[:1])+give[1:], running.API)
	}
	return key, err
}

// connect returns a client of the installation.
func (t *target) connect() (*client.Client, error) {
	to, err := t.access()
	if err != nil {
		return nil, err
	}
	return client.New(to)
}

// receiverURL returns where the receiver of the installation's `waybill dev` answers.
func (t *target) receiverURL() (string, error) {
	running, err := datadir.Announced(t.data)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case running.Receiver != "":
		return running.Receiver, nil
	}
	return defaultReceiver, nil
}
