package chart_test

import (
	"net/netip"
	"strconv"
	"testing"

	batch "k8s.io/api/batch/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const closed = `
networkPolicy:
  database: {to: [{ipBlock: {cidr: 10.20.0.5/32}}]}
  nats: {to: [{ipBlock: {cidr: 10.20.0.6/32}}]}
  egress: {gateway: [{to: [{ipBlock: {cidr: 10.30.0.0/16}}], ports: [{port: 443, protocol: TCP}]}]}
`

// TestEgress asks the policies what the cluster would: who may connect to where.
func TestEgress(t *testing.T) {
	t.Parallel()
	list := must(t, closed)
	for _, c := range []struct {
		address                           string
		api, dispatcher, gateway, migrate bool
	}{
		{"93.184.216.34:443", true, true, true, false},
		{"93.184.216.34:8443", true, true, true, false},
		{"[2606:2800:220:1::1]:443", true, true, true, false},
		{"10.20.0.5:5432", true, true, true, true},
		{"10.20.0.5:443", false, false, false, false},
		{"10.20.0.6:4222", true, true, true, false},
		{"10.20.0.6:5432", false, false, false, false},
		{"10.30.1.2:443", false, false, true, false}, // what the operator has added
		{"10.30.1.2:80", false, false, false, false},
		{"10.96.0.1:443", false, false, false, false}, // the API of the cluster
		{"127.0.0.1:80", false, false, false, false},
		{"169.254.169.254:80", false, false, false, false}, // metadata of clouds
		{"172.16.0.1:443", false, false, false, false},
		{"172.31.255.255:443", false, false, false, false},
		{"172.32.0.1:443", true, true, true, false},
		{"192.168.1.1:443", false, false, false, false},
		{"100.64.0.1:443", false, false, false, false},
		{"[fd00::1]:443", false, false, false, false},
		{"[fe80::1]:443", false, false, false, false},
		{"[::1]:443", false, false, false, false},
	} {
		to := netip.MustParseAddrPort(c.address)
		for part, want := range map[string]bool{"api": c.api, "dispatcher": c.dispatcher, "gateway": c.gateway, "migrate": c.migrate} {
			if got := allows(get[*networking.NetworkPolicy](t, list, "NetworkPolicy hooks-waybill-"+part), to); got != want {
				t.Errorf("%s may connect to %s: %v, want %v", part, to, got, want)
			}
		}
	}
}

// allows reports whether a policy lets TCP out to an address. Peers that are pods have none.
func allows(p *networking.NetworkPolicy, to netip.AddrPort) bool {
	for _, rule := range p.Spec.Egress {
		port := len(rule.Ports) == 0
		for _, one := range rule.Ports {
			port = port || *one.Protocol == "TCP" && one.Port.IntValue() == int(to.Port())
		}
		peer := len(rule.To) == 0
		for _, one := range rule.To {
			peer = peer || one.IPBlock != nil && within(one.IPBlock, to.Addr())
		}
		if port && peer {
			return true
		}
	}
	return false
}

func within(block *networking.IPBlock, addr netip.Addr) bool {
	for _, except := range block.Except {
		if netip.MustParsePrefix(except).Contains(addr) {
			return false
		}
	}
	return netip.MustParsePrefix(block.CIDR).Contains(addr)
}

// The cluster refuses an exception that is not a part of its block.
func TestExceptions(t *testing.T) {
	t.Parallel()
	for _, p := range all[*networking.NetworkPolicy](must(t, closed)) {
		for _, rule := range p.Spec.Egress {
			for _, peer := range rule.To {
				if peer.IPBlock == nil {
					continue
				}
				whole := netip.MustParsePrefix(peer.IPBlock.CIDR)
				for _, except := range peer.IPBlock.Except {
					if part := netip.MustParsePrefix(except); part != part.Masked() || !whole.Overlaps(part) || part.Bits() <= whole.Bits() {
						t.Errorf("%s: %s is not a part of %s", p.Name, except, whole)
					}
				}
			}
		}
	}
}

// Nobody reaches a dispatcher, and who may reach metrics is said.
func TestIngress(t *testing.T) {
	t.Parallel()
	list := must(t, "")
	for name, rules := range map[string]int{"api": 1, "dispatcher": 0, "gateway": 1, "migrate": 0} {
		if got := get[*networking.NetworkPolicy](t, list, "NetworkPolicy hooks-waybill-"+name).Spec.Ingress; len(got) != rules {
			t.Errorf("%s has the rules %v, want %d", name, got, rules)
		}
	}
	list = must(t, "networkPolicy: {from: {metrics: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}}")
	rules := get[*networking.NetworkPolicy](t, list, "NetworkPolicy hooks-waybill-dispatcher").Spec.Ingress
	if len(rules) != 1 || rules[0].Ports[0].Port.StrVal != "ops" || len(rules[0].From) != 1 {
		t.Errorf("metrics of a dispatcher: %v", rules)
	}
}

// The migrations come before the services, on each install and upgrade.
func TestMigrate(t *testing.T) {
	t.Parallel()
	job := get[*batch.Job](t, must(t, ""), "Job hooks-waybill-migrate")
	if got := job.Annotations["helm.sh/hook"]; got != "pre-install,pre-upgrade" {
		t.Errorf("the job is a hook for %q", got)
	}
	if account := job.Spec.Template.Spec.ServiceAccountName; account != "default" {
		t.Errorf("the job has the service account %s, which is not there before an install", account)
	}
}

// In a namespace that allows nothing by default the migrations reach the database on the first install:
// their policy is made before them, on the same occasions.
func TestMigrateBelowDefaultDeny(t *testing.T) {
	t.Parallel()
	list := must(t, closed)
	job := get[*batch.Job](t, list, "Job hooks-waybill-migrate")
	policy := get[*networking.NetworkPolicy](t, list, "NetworkPolicy hooks-waybill-migrate")
	if hook := policy.Annotations["helm.sh/hook"]; hook != job.Annotations["helm.sh/hook"] {
		t.Errorf("the policy is a hook for %q, the job for %q", hook, job.Annotations["helm.sh/hook"])
	}
	if before, then := weight(t, policy.Annotations), weight(t, job.Annotations); before >= then {
		t.Errorf("the policy has weight %d, the job %d", before, then)
	}
	selector, err := meta.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	if !selector.Matches(labels.Set(job.Spec.Template.Labels)) {
		t.Errorf("the policy selects %s, the job's pods have %v", selector, job.Spec.Template.Labels)
	}
}

func weight(t *testing.T, annotations map[string]string) int {
	t.Helper()
	n, err := strconv.Atoi(annotations["helm.sh/hook-weight"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
