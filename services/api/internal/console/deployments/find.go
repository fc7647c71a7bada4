package deployments

import (
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// find returns the deployments of the account's first projects, and what can be done to each.
func find(p *console.Page) []console.Hit {
	var hits []console.Hit
	may := p.May(domain.ScopeGatewayWrite)
	if may {
		hits = append(hits, console.Hit{Label: "Upload a build", Path: newPath, Icon: "plus", Act: true})
	}
	names, _, _ := projects(p)
	for _, name := range names[:min(few, len(names))] {
		var answer web.Listing[deployment]
		if p.API.Try(at(p, name), url.Values{"limit": {strconv.Itoa(many)}}, &answer) != nil {
			continue
		}
		for i := range answer.Data {
			d := &answer.Data[i]
			label, more := d.BranchName+" of "+d.ProjectName, d.Host()+" "+d.Name
			hits = append(hits, console.Hit{Label: label, More: more, Path: d.Path(), Icon: "deployments"})
			if may {
				hits = append(hits,
					console.Hit{Label: "Redeploy " + label, More: more, Path: d.Path("deploy"), Icon: "jobs", Act: true},
					console.Hit{Label: "Variables of " + label, More: more, Path: d.Branch(), Icon: "environments", Act: true})
			}
		}
	}
	return hits
}
