package deployments

import (
	"encoding/json"
	"fmt"

	"waybill.dev/shared/domain"
)

// A build keeps the variables that it was made with, sealed, so that restarts and other processes
// see the same values. They are a JSON object of values by name.

// sealVariables seals the variables of a build.
func (d *Deployments) sealVariables(build string, variables []domain.Variable) ([]byte, error) {
	values := make(map[string]string, len(variables))
	for _, v := range variables {
		values[v.Name] = v.Value.Reveal()
	}
	plain, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encode variables of build %s: %w", build, err)
	}
	sealed, err := d.db.Seal(plain, snapshotData(build))
	if err != nil {
		return nil, fmt.Errorf("seal variables of build %s: %w", build, err)
	}
	return sealed, nil
}

// openVariables returns the values of the variables of a build by name.
func (d *Deployments) openVariables(build string, sealed []byte) (map[string]domain.Secret, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	plain, err := d.db.Unseal(sealed, snapshotData(build))
	if err != nil {
		return nil, fmt.Errorf("open variables of build %s: %w", build, err)
	}
	var values map[string]domain.Secret
	if err := json.Unmarshal(plain, &values); err != nil {
		return nil, fmt.Errorf("decode variables of build %s: %w", build, err)
	}
	return values, nil
}

// snapshotData binds sealed variables to their build.
func snapshotData(build string) []byte { return []byte("gateway_builds|variables|" + build) }
