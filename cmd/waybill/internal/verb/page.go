package verb

import (
	"net/http"
	"net/url"
)

// Page returns the path of the console's page with the result of a reading verb; empty: there is none.
func (v Verb) Page(in *Input) string {
	page := pages()[v.Path]
	if v.Method != http.MethodGet || page == "" {
		return ""
	}
	return fill(page, in.names(v.Args, url.PathEscape))
}

// pages returns the console's pages by the API's paths.
func pages() map[string]string {
	return map[string]string{
		webhooksPath: "/console/webhooks", webhooksPath + "/{id}": "/console/webhooks/{id}",
		eventsPath: "/console/events", eventsPath + "/{id}": "/console/events/{id}", "/v1/rejected": "/console/rejected",
		deliveriesPath: "/console/deliveries", deliveriesPath + "/{id}": "/console/deliveries/{id}",
		jobsPath: "/console/jobs", jobsPath + "/{id}": "/console/jobs/{id}",
		deploymentsPath: "/console/deployments", deploymentPath: "/console/deployments/{deploymentName}",
		bucketsPath: "/console/access", bucketPath: "/console/access/buckets/{bucketName}",
		consumerPath: "/console/access/buckets/{bucketName}/consumers/{consumerName}",
		tunnelsPath:  "/console/tunnels", domainsPath: "/console/domains", certificatesPath: "/console/certificates",
		accountPath + "/audit-logs": "/console/audit", signingKeysPath: "/console/signing-keys",
	}
}
