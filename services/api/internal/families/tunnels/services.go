package tunnels

import (
	"net/url"
	"strconv"
	"strings"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
)

const (
	nameForm = "^[a-zA-Z0-9-]{3,24}$"

	maxVersion  = 255 // fits into a byte
	maxEndpoint = 2048
	maxProjects = 100
)

// readServices reads a services configuration.
func readServices(f *input.Form) domain.TunnelServices {
	f.Require("version", "services")
	services := domain.TunnelServices{Services: []domain.TunnelService{}}
	services.Version, _ = f.Integer("version", 1, maxVersion)
	list, _ := f.Elements("services", 0, domain.MaxTunnelServices, false)
	names := make(map[string]bool, len(list))
	for i, element := range list {
		if element.Form == nil {
			continue // reported already
		}
		s := readService(element.Form)
		if names[s.Name] && s.Name != "" {
			f.Fault("must not have the name of another service", "services", strconv.Itoa(i), "name")
		}
		names[s.Name] = true
		services.Services = append(services.Services, s)
	}
	return services
}

func readService(f *input.Form) domain.TunnelService {
	f.Require("endpoint", "configurations")
	s := domain.TunnelService{Name: readName(f), Configurations: []domain.TunnelAccess{}}
	if text, ok := f.Text("endpoint", 1, maxEndpoint); ok {
		if fault := endpointFault(text); fault != "" {
			f.Fault(fault, "endpoint")
		}
		s.Endpoint = text
	}
	list, _ := f.Elements("configurations", 1, maxProjects, false)
	for _, element := range list {
		if element.Form != nil {
			s.Configurations = append(s.Configurations, readAccess(element.Form))
		}
	}
	return s
}

func readAccess(f *input.Form) domain.TunnelAccess {
	f.Require("project", "accessibleBy")
	var a domain.TunnelAccess
	a.Project, _ = f.Text("project", 1, 100)
	kinds := []string{domain.Production.Bucket(), domain.Preview.Bucket(), domain.Development.Bucket()}
	a.AccessibleBy, _ = f.Texts("accessibleBy", 1, len(kinds))
	seen := make(map[string]bool)
	for i, kind := range a.AccessibleBy {
		if kind != kinds[0] && kind != kinds[1] && kind != kinds[2] {
			f.Fault("must be production, preview or working-copy", "accessibleBy", strconv.Itoa(i))
		} else if seen[kind] {
			f.Fault("is there twice", "accessibleBy", strconv.Itoa(i))
		}
		seen[kind] = true
	}
	return a
}

// endpointFault returns the fault of a service's URL; empty: none. The agent connects to it in a
// network that Waybill can't see, so any host is allowed.
func endpointFault(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return "must be an http or https URL"
	case u.User != nil:
		return "must not have a user name or password"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#"):
		return "must not have a query or a fragment"
	case strings.HasSuffix(u.Host, ":") || !validPort(u.Port()):
		return "must have a port from 1 to 65535, or none"
	}
	return ""
}

func validPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n <= 65535
}
