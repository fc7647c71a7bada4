package deployments

import (
	"net/url"
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// maxFound is how many deployments a search looks through.
const maxFound = few * many

// find returns the account's first deployments, and the actions on each.
func find(p *console.Page) []console.Hit {
	var hits []console.Hit
	may := p.May(domain.ScopeGatewayWrite)
	if may {
		hits = append(hits, console.Hit{Label: "Upload a build", Path: newPath, Icon: "plus", Act: true})
	}
	var answer web.Listing[deployments.Environment]
	query := url.Values{"accountName": {p.Account()}, "projectName": {"*"}, "limit": {strconv.Itoa(maxFound)}}
	if p.API.Try("/v1/environments", query, &answer) != nil {
		return hits
	}
	for i := range answer.Data {
		e := &answer.Data[i]
		label, more := e.BranchName+" of "+e.ProjectName, strings.Join(e.URLs, " ")+" "+e.Name
		hits = append(hits, console.Hit{Label: label, More: more, Path: pathOf(e.Name), Icon: "deployments"})
		if may {
			hits = append(hits,
				console.Hit{Label: "Redeploy " + label, More: more, Path: pathOf(e.Name, "deploy"), Icon: "jobs", Act: true},
				console.Hit{Label: "Variables of " + label, More: more, Path: console.Path("console", "environments", e.ProjectName, e.BranchName), Icon: "environments", Act: true})
		}
	}
	return hits
}
