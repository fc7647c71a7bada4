// Package tenant makes sites from the files that users upload. It separates one deployment from everything else: it decides
// which variables its route files see, where they may forward to, and whose keys they accept.
package tenant

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/folder"
	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

// maxTokens bounds the names, values, brackets and braces in the route files of one deployment,
// each of which takes up to bytesOfToken.
const (
	maxTokens    = 350_000
	bytesOfToken = 150
)

// maxSchemas bounds the schemas of one deployment, each including the schemas that it refers to: some 30 MB as long as they
// are kept, up to three times that while they are made, and 1 s to compile. That is enough for some 25 different schemas of
// 1,000 members each.
const maxSchemas = 64_000

// Rules are the rules of the installation, the same for all tenants.
type Rules struct {
	// Egress says where back ends may be; nil: at public addresses by HTTPS.
	Egress *egress.Policy
	// Built is as in site.Limits.
	Built bool
	// Memory is how much memory the routes of a deployment may take, in bytes; 0: there is no bound.
	Memory int64
	// Policies are the policies that route files may define; nil: the gateway's own, made for each site.
	Policies *policy.Registry
	// Services returns an error if a service behind a tunnel can't be used. If it is nil, every valid name is
	// accepted.
	Services func(name string) error
	// Rest is called between two pieces of the work, at least once for each route: NewPace. If it is nil, the work goes on
	// without rests.
	Rest func()
}

// Make returns the site of an archive, or everything that is wrong with it. Of the build,
// Account, Project, Branch, EnvironmentType, Deployment and ID are used.
func (r Rules) Make(ctx context.Context, format string, packed []byte, build *domain.Build, variables map[string]domain.Secret) (*site.Site, site.Faults) {
	files, faults := folder.Unpack(ctx, format, packed)
	if len(faults) > 0 {
		return nil, faults
	}
	return r.Compile(ctx, files, build, variables)
}

// Compile is Make for unpacked files. If ctx ends, a fault says that the check was cancelled.
func (r Rules) Compile(ctx context.Context, files fs.FS, build *domain.Build, variables map[string]domain.Secret) (*site.Site, site.Faults) {
	weight, faults := measure(files)
	if len(faults) > 0 {
		return nil, faults
	}
	budget := jsonschema.NewBudget(maxSchemas, r.Rest)
	stop := context.AfterFunc(ctx, budget.End)
	defer stop()
	values := make(site.Variables, len(variables))
	for name, value := range variables {
		values[name] = value.Reveal()
	}
	made, faults := site.Compile(files, values, site.Limits{
		Account: build.Account, Egress: r.Egress, Uploaded: true, Built: r.Built, Schemas: budget, Policies: r.Policies,
		Weight: weight, MaxWeight: r.Memory,
		Bucket:   Bucket(build.Project, build.EnvironmentType),
		Services: &upstream.Access{Account: build.Account, Project: build.Project, Environment: build.EnvironmentType, Check: r.Services},
		Own: site.Variables{
			routefile.VariableAccount: build.Account, routefile.VariableProject: build.Project, routefile.VariableBranch: build.Branch,
			routefile.VariableEnvironment: string(build.EnvironmentType), routefile.VariableDeployment: build.Deployment, routefile.VariableBuild: build.ID,
		},
	})
	if ctx.Err() != nil {
		return nil, site.Faults{{Message: jsonschema.ErrEnded.Error()}}
	}
	return made, faults
}

// Bucket returns the name of the bucket for the keys of an environment's routes, unless the routes name another one.
func Bucket(project string, environment domain.EnvironmentType) string {
	return project + "-" + environment.Bucket()
}

// measure returns about how much memory route files take, in bytes, or the faults for which they are not read.
func measure(files fs.FS) (weight int64, faults site.Faults) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return 0, site.Faults{{Message: "the folder can't be read"}}
	}
	routes, left := 0, maxTokens
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, routefile.Suffix) && name != routefile.PolicyFile {
			continue
		}
		if name != routefile.PolicyFile {
			routes++
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return 0, site.Faults{{File: name, Message: "can't be read"}}
		}
		weight += int64(len(raw))
		if left -= count(raw, left); left <= 0 {
			return 0, site.Faults{{File: name, Message: fmt.Sprintf("is too large: the JSON of all route files together may have %d names, values, brackets and braces", maxTokens)}}
		}
	}
	if routes == 0 {
		return 0, site.Faults{{Message: "there is no route file: its name would end with " + routefile.Suffix}}
	}
	return weight + int64(maxTokens-left)*bytesOfToken, nil
}

// count returns the number of tokens in a JSON text, up to limit. Invalid JSON ends the counting: the reader of the text
// reports it.
func count(raw []byte, limit int) int {
	tokens := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	n := 0
	for ; n < limit; n++ {
		if _, err := tokens.ReadToken(); err != nil {
			return n
		}
	}
	return n
}
