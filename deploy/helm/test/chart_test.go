// Package chart_test renders the chart with Helm's own library for many values, and reads every object
// strictly as the types of the Kubernetes API have it: an unknown field is a fault.
package chart_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// types has an empty object of each kind that the chart may make.
var types = map[string]func() meta.Object{
	"apps/v1 Deployment":                      func() meta.Object { return new(apps.Deployment) },
	"autoscaling/v2 HorizontalPodAutoscaler":  func() meta.Object { return new(autoscaling.HorizontalPodAutoscaler) },
	"batch/v1 Job":                            func() meta.Object { return new(batch.Job) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() meta.Object { return new(monitoring.ServiceMonitor) },
	"networking.k8s.io/v1 Ingress":            func() meta.Object { return new(networking.Ingress) },
	"networking.k8s.io/v1 NetworkPolicy":      func() meta.Object { return new(networking.NetworkPolicy) },
	"policy/v1 PodDisruptionBudget":           func() meta.Object { return new(policy.PodDisruptionBudget) },
	"v1 Service":                              func() meta.Object { return new(core.Service) },
	"v1 ServiceAccount":                       func() meta.Object { return new(core.ServiceAccount) },
}

// needed are the values that have no default.
const needed = `
secrets:
  database: {name: waybill-database}
  encryption: {name: waybill-encryption}
  admin: {name: waybill-admin}
  nats: {api: {name: nats-api}, dispatcher: {name: nats-dispatcher}, gateway: {name: nats-gateway}}
`

// render returns the objects of the chart for values, which are YAML and win over those needed.
func render(t *testing.T, values string) (objects, error) {
	t.Helper()
	chart, err := loader.LoadDir("../waybill")
	if err != nil {
		t.Fatalf("load the chart: %v", err)
	}
	var base, own map[string]any
	if err := yaml.UnmarshalStrict([]byte(needed), &base); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(values), &own); err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "hooks", Namespace: "shipping", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, loader.MergeMaps(base, own), release, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	list := make(objects)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			list.read(t, name, files[name])
		}
	}
	return list, nil
}

// must is render for values that are good.
func must(t *testing.T, values string) objects {
	t.Helper()
	list, err := render(t, values)
	if err != nil {
		t.Fatalf("render the chart: %v", err)
	}
	return list
}

// objects are what a chart makes, by "kind name".
type objects map[string]meta.Object

func (o objects) read(t *testing.T, file, text string) {
	t.Helper()
	for part := range strings.SplitSeq("\n"+text, "\n---") {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(part), &kind); err != nil {
			t.Fatalf("%s is not YAML: %v\n%s", file, err, part)
		}
		if kind.Kind == "" {
			continue // comments alone
		}
		make, known := types[kind.APIVersion+" "+kind.Kind]
		if !known {
			t.Fatalf("%s has a %s %s", file, kind.APIVersion, kind.Kind)
		}
		object := make()
		if err := yaml.UnmarshalStrict([]byte(part), object); err != nil {
			t.Fatalf("%s: %s: %v\n%s", file, kind.Kind, err, part)
		}
		if object.GetNamespace() != "shipping" {
			t.Errorf("%s: %s %s is in the namespace %q", file, kind.Kind, object.GetName(), object.GetNamespace())
		}
		name := kind.Kind + " " + object.GetName()
		if _, twice := o[name]; twice {
			t.Errorf("%s: there are two of %s", file, name)
		}
		o[name] = object
	}
}

// get returns the object of a name as its type.
func get[T meta.Object](t *testing.T, o objects, name string) T {
	t.Helper()
	object, ok := o[name].(T)
	if !ok {
		t.Fatalf("there is no %s in %v", name, slices.Sorted(maps.Keys(o)))
	}
	return object
}

// all returns the objects of one type.
func all[T meta.Object](o objects) []T {
	var list []T
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if object, ok := o[name].(T); ok {
			list = append(list, object)
		}
	}
	return list
}

// pods returns the templates of all pods, by the name of what makes them.
func (o objects) pods() map[string]core.PodTemplateSpec {
	list := make(map[string]core.PodTemplateSpec)
	for _, d := range all[*apps.Deployment](o) {
		list[d.Name] = d.Spec.Template
	}
	for _, j := range all[*batch.Job](o) {
		list[j.Name] = j.Spec.Template
	}
	return list
}

// matrix returns values for each feature, alone and with all others.
func matrix() map[string]string {
	single := map[string]string{
		"image by digest":    "image: {repository: registry.example.com/waybill, digest: 'sha256:" + strings.Repeat("ab", 32) + "', pullSecrets: [{name: pull}]}\n",
		"settings":           "settings: {WAYBILL_LOG_FORMAT: json, WAYBILL_EGRESS_HTTP: true, WAYBILL_BUS_REPLICAS: 3, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://otel:4318'}\n",
		"api":                "api: {replicas: 3, routes: my-routes, settings: {WAYBILL_RATE_LIMIT: 100}, autoscaling: {enabled: true}, ingress: {enabled: true, className: nginx, host: hooks.example.com, tlsSecret: tls, annotations: {a: b}}}\n",
		"dispatcher":         "dispatcher: {autoscaling: {enabled: true, selector: {namespace: shipping}}}\n",
		"gateway":            "gateway: {tlsSecret: gateway-tls, autoscaling: {enabled: true}, ingress: {enabled: true, host: '*.gateway.example.com'}}\n",
		"network policy":     "networkPolicy: {database: {to: [{ipBlock: {cidr: 10.20.0.5/32}}]}, nats: {to: [{podSelector: {matchLabels: {app: nats}}}]}, egress: {gateway: [{to: [{ipBlock: {cidr: 10.30.0.0/16}}]}]}, from: {api: [{namespaceSelector: {}}], metrics: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}}\n",
		"service monitor":    "serviceMonitor: {enabled: true, labels: {release: prometheus}}\n",
		"service account":    "serviceAccount: {name: hooks, annotations: {x: y}}\n",
		"pods":               "podAnnotations: {a: '1'}\npodLabels: {team: shipping, app.kubernetes.io/name: not-this}\nnodeSelector: {kubernetes.io/arch: amd64}\ntolerations: [{key: k, operator: Exists}]\npriorityClassName: high\ntopologySpread: {whenUnsatisfiable: DoNotSchedule}\n",
		"disruption budgets": "podDisruptionBudget: {maxUnavailable: 25%}\n",
	}
	cases := map[string]string{
		"defaults": "",
		"nothing that can be left out": "gateway: {enabled: false}\nmigrate: {enabled: false}\nnetworkPolicy: {enabled: false}\npodDisruptionBudget: {enabled: false}\n" +
			"serviceAccount: {create: false}\ntopologySpread: {enabled: false}\nsecrets: {admin: {name: ''}}\n",
		"an account that is there": "serviceAccount: {create: false, name: theirs}\n",
		"single sign-on":           "secrets: {oidc: {name: oidc}}\n",
	}
	maps.Copy(cases, single)
	cases["everything"] = strings.Join(slices.Sorted(maps.Values(single)), "")
	return cases
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	for name, values := range matrix() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := must(t, values)
			for owner, pod := range list.pods() {
				checkPod(t, owner, pod)
			}
			checkSelectors(t, list)
			checkVariables(t, list)
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, says string }{
		"no database":               {"secrets: {database: {name: ''}}", "secrets.database.name is required"},
		"no encryption":             {"secrets: {encryption: {name: ''}}", "secrets.encryption.name is required"},
		"no bus":                    {"secrets: {nats: {dispatcher: {name: ''}}}", "secrets.nats.dispatcher.name is required"},
		"a secret among settings":   {"settings: {WAYBILL_ENCRYPTION_KEY: hunter2}", "is a secret"},
		"a secret of one service":   {"api: {settings: {WAYBILL_ADMIN_KEY: hunter2}}", "is a secret"},
		"an address":                {"gateway: {settings: {WAYBILL_HTTP_ADDR: ':1'}}", "is set by the chart"},
		"a setting of something":    {"settings: {LD_PRELOAD: x}", "LD_PRELOAD"},
		"a value that is not there": {"dispatcher: {replica: 3}", "replica"},
		"an ingress without a host": {"api: {ingress: {enabled: true}}", "api.ingress.host is required"},
		"a digest that is none":     {"image: {digest: latest}", "digest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := render(t, c.values)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("it shows the secret: %v", err)
			}
		})
	}
}
