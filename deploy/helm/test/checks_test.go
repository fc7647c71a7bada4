package chart_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// checkPod holds a pod to what every pod promises.
func checkPod(t *testing.T, owner string, pod core.PodTemplateSpec) {
	t.Helper()
	is := func(ok bool, what string) {
		t.Helper()
		if !ok {
			t.Errorf("%s: %s", owner, what)
		}
	}
	yes := func(b *bool) bool { return b != nil && *b }
	security := pod.Spec.SecurityContext
	is(yes(security.RunAsNonRoot) && *security.RunAsUser == 65532, "it may run as root")
	is(security.SeccompProfile.Type == core.SeccompProfileTypeRuntimeDefault, "it has no seccomp profile")
	is(pod.Spec.AutomountServiceAccountToken != nil && !*pod.Spec.AutomountServiceAccountToken, "it gets a token of the cluster")
	is(!pod.Spec.HostNetwork && !pod.Spec.HostPID, "it is in the host's namespaces")
	for _, c := range pod.Spec.Containers {
		own := c.SecurityContext
		is(yes(own.ReadOnlyRootFilesystem), "it can write to its root")
		is(own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation, "it may gain rights")
		is(slices.Equal(own.Capabilities.Drop, []core.Capability{"ALL"}) && len(own.Capabilities.Add) == 0, "it has capabilities")
		is(!c.Resources.Limits.Memory().IsZero() && !c.Resources.Requests.Cpu().IsZero(), "it has no resources")
		is(strings.HasPrefix(c.Command[0], "/waybill"), "it runs something else")
		if pod.Spec.RestartPolicy == core.RestartPolicyNever {
			continue // a job
		}
		is(c.ReadinessProbe.HTTPGet.Path == "/readyz" && c.LivenessProbe.HTTPGet.Path == "/healthz" && c.StartupProbe != nil, "its probes are wrong")
		is(*pod.Spec.TerminationGracePeriodSeconds >= 30+c.Lifecycle.PreStop.Sleep.Seconds, "it is killed before it has finished")
	}
}

// checkSelectors checks that whatever selects pods selects some, and those of one part.
func checkSelectors(t *testing.T, o objects) {
	t.Helper()
	selects := func(by string, selector map[string]string) {
		t.Helper()
		found := 0
		for _, pod := range o.pods() {
			if labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s selects the pods of %d parts", by, found)
		}
	}
	plain := func(s *meta.LabelSelector) map[string]string { return s.MatchLabels }
	for _, d := range all[*apps.Deployment](o) {
		selects("the deployment "+d.Name, plain(d.Spec.Selector))
		for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
			selects("a constraint of "+d.Name, plain(c.LabelSelector))
		}
	}
	for _, s := range all[*core.Service](o) {
		selects("the service "+s.Name, s.Spec.Selector)
		for _, port := range s.Spec.Ports {
			if !hasPort(o, s.Spec.Selector, port.TargetPort.StrVal) {
				t.Errorf("the service %s leads to a port %s, which no pod has", s.Name, port.TargetPort.StrVal)
			}
		}
	}
	for _, b := range all[*policy.PodDisruptionBudget](o) {
		selects("the disruption budget "+b.Name, plain(b.Spec.Selector))
	}
	for _, p := range all[*networking.NetworkPolicy](o) {
		selects("the network policy "+p.Name, plain(&p.Spec.PodSelector))
	}
	for _, h := range all[*autoscaling.HorizontalPodAutoscaler](o) {
		if d := get[*apps.Deployment](t, o, "Deployment "+h.Spec.ScaleTargetRef.Name); d.Spec.Replicas != nil {
			t.Errorf("%s is scaled and has a number of replicas: an upgrade would undo the scaling", d.Name)
		}
	}
	for _, i := range all[*networking.Ingress](o) {
		get[*core.Service](t, o, "Service "+i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name)
	}
	for _, m := range all[*monitoring.ServiceMonitor](o) {
		if n := len(slices.DeleteFunc(all[*core.Service](o), func(s *core.Service) bool {
			return !labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels))
		})); n != len(all[*apps.Deployment](o)) {
			t.Errorf("Prometheus asks %d services of %d", n, len(all[*apps.Deployment](o)))
		}
	}
}

func hasPort(o objects, selector map[string]string, name string) bool {
	for _, pod := range o.pods() {
		if labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
			return slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p core.ContainerPort) bool { return p.Name == name })
		}
	}
	return false
}

// secret are the settings that come out of Secrets alone.
var secret = []string{"WAYBILL_DATABASE_URL", "WAYBILL_NATS_URL", "WAYBILL_ENCRYPTION_KEY", "WAYBILL_ADMIN_KEY", "WAYBILL_OIDC_CLIENT_SECRET"}

// checkVariables checks that pods get settings that exist, once, and secrets by reference.
func checkVariables(t *testing.T, o objects) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	for owner, pod := range o.pods() {
		seen := make(map[string]bool)
		for _, v := range pod.Spec.Containers[0].Env {
			if seen[v.Name] {
				t.Errorf("%s has %s twice", owner, v.Name)
			}
			seen[v.Name] = true
			if strings.HasPrefix(v.Name, "WAYBILL_") && !strings.Contains(string(page), "| `"+v.Name+"`") {
				t.Errorf("%s has %s, which is not a setting", owner, v.Name)
			}
			if referred := v.ValueFrom != nil && v.ValueFrom.SecretKeyRef.Name != "" && v.Value == ""; referred != slices.Contains(secret, v.Name) {
				t.Errorf("%s: %s comes from a Secret: %v", owner, v.Name, referred)
			}
		}
		if !seen["WAYBILL_DATABASE_URL"] {
			t.Errorf("%s has no database", owner)
		}
	}
}

// Each metric that pods are scaled by is one that Waybill has.
func TestMetric(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	list := must(t, "dispatcher: {autoscaling: {enabled: true}}")
	scaler := get[*autoscaling.HorizontalPodAutoscaler](t, list, "HorizontalPodAutoscaler hooks-waybill-dispatcher")
	metric := scaler.Spec.Metrics[0].External.Metric.Name
	if !regexp.MustCompile("(?m)^\\| `" + metric + "` \\| age of the oldest accepted event").Match(page) {
		t.Errorf("docs/operators.md has no metric %s for the age of the queue", metric)
	}
	if got := scaler.Spec.Metrics[0].External.Target.Value.String(); got != "30" {
		t.Errorf("the target is %s", got)
	}
}
