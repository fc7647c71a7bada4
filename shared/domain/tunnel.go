package domain

import (
	"regexp"
	"slices"
	"time"
)

// Bounds of tunnels.
const (
	MaxTunnels           = 100 // of an account
	MaxTunnelConnections = 16  // of a tunnel, at a time
	MaxTunnelServices    = 100 // of a tunnel
	// MaxTunnelOverlap is how long a replaced token may stay valid.
	MaxTunnelOverlap = 24 * time.Hour
	// TunnelDrainTime is how long requests may go on over a connection that ends.
	TunnelDrainTime = 30 * time.Second
	// TunnelConfigureTime is how long agents have to accept a services configuration.
	TunnelConfigureTime = 10 * time.Second
	// TunnelFreshTime is how long a connection counts after it was last renewed.
	TunnelFreshTime = 25 * time.Second
	// TunnelOperationTime is how long an operation can be read after it has ended.
	TunnelOperationTime = 24 * time.Hour
)

// TunnelStatus says whether a tunnel can be used.
type TunnelStatus string

// The statuses of a tunnel.
const (
	TunnelInactive TunnelStatus = "inactive" // no agent has ever connected
	TunnelUp       TunnelStatus = "up"       // an agent is connected
	TunnelDown     TunnelStatus = "down"     // no agent is connected now
)

// Tunnel leads from gateways into a network that they can't reach, through an agent there.
type Tunnel struct {
	ID          string
	Account     string
	Name        string
	TokenSuffix string // of the present token
	Status      TunnelStatus
	Connections []TunnelConnection
	CreatedOn   time.Time
	UpdatedOn   time.Time
}

// TunnelConnection is the connection of a tunnel's agent to a gateway.
type TunnelConnection struct {
	ID           string
	Process      string // of the gateway
	AgentVersion string
	ConnectedOn  time.Time
}

// TunnelToken has what proves the token of an agent, without the token itself.
type TunnelToken struct {
	Hash   []byte
	Suffix string
}

// TunnelServices is the services configuration of a tunnel. Agents get it in this form, in JSON.
type TunnelServices struct {
	Version  int             `json:"version"`
	Services []TunnelService `json:"services"`
}

// TunnelService is a server behind a tunnel, which routes name as service://name.
type TunnelService struct {
	Name           string         `json:"name"`
	Endpoint       string         `json:"endpoint"` // http:// or https://, as the agent reaches it
	Configurations []TunnelAccess `json:"configurations"`
}

// TunnelAccess is a project and those of its environments that may use a service of the tunnel.
type TunnelAccess struct {
	Project      string   `json:"project"`
	AccessibleBy []string `json:"accessibleBy"` // production, preview, working-copy
}

// Allows reports whether deployments of a project's environment may use the service.
func (s *TunnelService) Allows(project string, environment EnvironmentType) bool {
	return slices.ContainsFunc(s.Configurations, func(a TunnelAccess) bool {
		return a.Project == project && slices.Contains(a.AccessibleBy, environment.Bucket())
	})
}

// The statuses of an operation on a tunnel.
const (
	OperationInProgress = "in-progress"
	OperationSuccess    = "success"
	OperationError      = "error"
)

// TunnelOperation is a change of a tunnel that gateways and agents carry out.
type TunnelOperation struct {
	ID       string
	TunnelID string
	Status   string
	Message  string
	Details  string
}

var tunnelName = regexp.MustCompile(`^[a-zA-Z0-9-]{3,24}$`)

// ValidTunnelName reports whether a tunnel, or a service behind one, can have the name.
func ValidTunnelName(name string) bool { return tunnelName.MatchString(name) }
