package cli

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/shared/domain"
)

// The variables that name an installation and the key for it.
const (
	urlVariable = "WAYBILL_URL"
	keyVariable = "WAYBILL_KEY"

	defaultURL      = "http://127.0.0.1:8080"
	defaultReceiver = "http://127.0.0.1:8090"
	defaultData     = "./.waybill"
)

// target tells which installation a command works with.
type target struct{ url, key, data string }

// addTarget adds the flags that name an installation.
func addTarget(cmd *cobra.Command) *target {
	t := &target{}
	cmd.Flags().StringVar(&t.url, "url", "", "the installation; else the one that runs in the data directory, else "+defaultURL)
	cmd.Flags().StringVar(&t.key, "key", "", "API key; else the admin key in the data directory")
	cmd.Flags().StringVar(&t.data, "data", defaultData, "data directory of a `waybill dev`")
	cmd.Flags().Lookup("data").Usage = "data directory of a waybill dev"
	setVariable(cmd.Flags(), "data", settings.DataDir)
	return t
}

// baseURL returns where the installation answers.
func (t *target) baseURL() string {
	if t.url != "" {
		return t.url
	}
	if running, ok := datadir.Announced(t.data); ok {
		return running.API
	}
	return defaultURL
}

// receiverURL returns where the receiver of the installation's `waybill dev` answers.
func (t *target) receiverURL() string {
	if running, ok := datadir.Announced(t.data); ok && running.Receiver != "" {
		return running.Receiver
	}
	return defaultReceiver
}

// secret returns the API key: as given, else the bootstrap key of this environment, else
// the one that `waybill dev` keeps.
func (t *target) secret() (domain.Secret, error) {
	if t.key != "" {
		return domain.Secret(t.key), nil
	}
	if key := os.Getenv(settings.AdminKey); key != "" {
		return domain.Secret(key), nil
	}
	key, err := datadir.ReadKey(t.data, datadir.AdminKey)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("no API key: give one with --key or " + keyVariable + ", or name the data directory of a `waybill dev` with --data")
	}
	return key, err
}

// connect returns a client of the installation.
func (t *target) connect() (*client.Client, error) {
	key, err := t.secret()
	if err != nil {
		return nil, err
	}
	return client.New(t.baseURL(), key)
}
