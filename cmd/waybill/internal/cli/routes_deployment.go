package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/bundle"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

// deploymentCheck has the flags for checking route files as a build would.
type deploymentCheck struct {
	on        bool
	variables []string // NAME=VALUE
	data      string   // folder of waybill dev
}

const variableFlag = "var"

func addDeploymentCheck(cmd *cobra.Command) *deploymentCheck {
	d := &deploymentCheck{}
	cmd.Flags().BoolVar(&d.on, "deployment", false, "check as a build of a deployment does, and not as the server's own routes")
	cmd.Flags().StringArrayVar(&d.variables, variableFlag, nil, "`NAME=VALUE` of a variable of the deployment; repeatable")
	cmd.Flags().StringVar(&d.data, "data", defaultData, "data `directory` of waybill dev, whose rules for back ends hold if it runs")
	setVariable(cmd.Flags(), "data", settings.DataDir)
	return d
}

// values returns the variables. Only the name of a faulty one is shown.
func (d *deploymentCheck) values() (gateway.Variables, error) {
	if len(d.variables) > 0 && !d.on {
		return nil, errors.New("--var is for --deployment: the server's own routes take the variables of the environment")
	}
	values := make(gateway.Variables, len(d.variables))
	for _, given := range d.variables {
		name, value, found := strings.Cut(given, "=")
		switch {
		case !found:
			return nil, fmt.Errorf("--var %s has no value: write NAME=VALUE", strconv.Quote(name))
		case !domain.ValidVariableName(name):
			return nil, fmt.Errorf("--var %s: a variable's name has 1 to 64 characters of A-Z 0-9 _, the first one a letter, and does not begin with WAYBILL_", strconv.Quote(name))
		case len(value) > domain.MaxVariableValue:
			return nil, fmt.Errorf("--var %s: a value has at most %d bytes", name, domain.MaxVariableValue)
		}
		if _, twice := values[name]; twice {
			return nil, fmt.Errorf("--var %s is given twice", name)
		}
		values[name] = value
	}
	return values, nil
}

// read checks the files that deploy would upload, as a gateway with the settings of the environment
// would: beside a running waybill dev, with the settings of that.
func (d *deploymentCheck) read(cmd *cobra.Command, dir string) ([]gateway.RouteInfo, []gateway.RouteFault, error) {
	values, err := d.values()
	if err != nil {
		return nil, nil, err
	}
	policy, err := d.policy()
	if err != nil {
		return nil, nil, err
	}
	packed, err := bundle.Make(dir)
	if err != nil {
		return nil, nil, err
	}
	routes, faults := gateway.CheckDeployment(cmd.Context(), packed.Archive, standIn(), values, policy)
	return routes, faults, nil
}

// role returns the role of the process that would build.
func (d *deploymentCheck) role() settings.Role {
	if held, _ := datadir.Held(d.data); held {
		return settings.Dev
	}
	return settings.Gateway
}

// policy says where back ends may be.
func (d *deploymentCheck) policy() (*egress.Policy, error) {
	allow, http := d.setting(settings.GatewayEgressAllow), d.setting(settings.EgressHTTP)
	policy := &egress.Policy{}
	var err error
	if policy.Allow, err = egress.ParseAllow(allow); err != nil {
		return nil, fmt.Errorf("%s: %w", settings.GatewayEgressAllow, err)
	}
	if policy.HTTP, err = strconv.ParseBool(http); err != nil {
		return nil, fmt.Errorf("%s must be true or false", settings.EgressHTTP)
	}
	return policy, nil
}

// setting returns a setting of the process that would build.
func (d *deploymentCheck) setting(name string) string {
	return cmp.Or(os.Getenv(name), settings.Default(name, d.role()))
}

// checkedWith names the settings by which the addresses of back ends were checked.
func (d *deploymentCheck) checkedWith() string {
	who := "a gateway"
	if d.role() == settings.Dev {
		who = "the waybill dev that runs here"
	}
	return fmt.Sprintf("Checked with the settings of %s: %s=%s, %s=%s.", who, settings.GatewayEgressAllow, d.setting(settings.GatewayEgressAllow), settings.EgressHTTP, d.setting(settings.EgressHTTP))
}

// standIn returns a placeholder for the build of the files.
func standIn() domain.Build {
	const project = "project"
	return domain.Build{
		ID: "00000000-0000-7000-8000-000000000000", Account: domain.DefaultAccount, Project: project, Branch: domain.DefaultProductionBranch,
		EnvironmentType: domain.Production, Deployment: domain.DeploymentName(domain.DefaultAccount, project, domain.DefaultProductionBranch),
	}
}
