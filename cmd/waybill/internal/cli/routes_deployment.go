package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/bundle"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

// deploymentCheck has the flags by which route files are checked as a build would check them.
type deploymentCheck struct {
	on        bool
	variables []string // NAME=VALUE
}

const variableFlag = "var"

func addDeploymentCheck(cmd *cobra.Command) *deploymentCheck {
	d := &deploymentCheck{}
	cmd.Flags().BoolVar(&d.on, "deployment", false, "check as a build of a deployment does, and not as the server's own routes")
	cmd.Flags().StringArrayVar(&d.variables, variableFlag, nil, "`NAME=VALUE` of a variable of the deployment; repeatable")
	return d
}

// values returns the variables. A faulty one is told by its name alone.
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

// read checks what deploy would upload of the folder, as a gateway with the settings of the
// environment would.
func (d *deploymentCheck) read(cmd *cobra.Command, dir string) ([]gateway.RouteInfo, []gateway.RouteFault, error) {
	values, err := d.values()
	if err != nil {
		return nil, nil, err
	}
	policy := &egress.Policy{}
	if policy.Allow, err = egress.ParseAllow(os.Getenv(settings.GatewayEgressAllow)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", settings.GatewayEgressAllow, err)
	}
	if text := os.Getenv(settings.EgressHTTP); text != "" {
		if policy.HTTP, err = strconv.ParseBool(text); err != nil {
			return nil, nil, fmt.Errorf("%s must be true or false", settings.EgressHTTP)
		}
	}
	packed, err := bundle.Make(dir)
	if err != nil {
		return nil, nil, err
	}
	routes, faults := gateway.CheckDeployment(cmd.Context(), packed.Archive, standIn(), values, policy)
	return routes, faults, nil
}

// standIn is the build that stands in for the one that the files will be of.
func standIn() domain.Build {
	const project = "project"
	return domain.Build{
		ID: "00000000-0000-7000-8000-000000000000", Account: domain.DefaultAccount, Project: project, Branch: domain.DefaultProductionBranch,
		EnvironmentType: domain.Production, Deployment: domain.DeploymentName(domain.DefaultAccount, project, domain.DefaultProductionBranch),
	}
}
