// Package chart tests the Helm chart in deploy/chart.
//
// It guarantees that what the chart renders is valid for Kubernetes: every object is decoded
// strictly into the type of its kind, and the settings are checked by the program. Properties
// are tested, not texts. It reaches no cluster. TestDeployTools of test/deploy runs it.
package chart

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const folder = "../../../deploy/chart"

// base are the values of one node, and shared those of several.
const (
	token = `secret: {values: {MODELGATE_ADMIN_TOKEN: "0123456789abcdef"}}
`
	one    = token
	shared = `replicas: 3
shared: {postgres: true, redis: true, s3: {endpoint: "https://s3.example.com", region: eu-central-1, bucket: files}}
secret:
  values: {MODELGATE_ADMIN_TOKEN: "0123456789abcdef", DATABASE_URL: "postgres://db/m", REDIS_URL: "redis://redis:6379/0", S3_ACCESS_KEY: a, S3_SECRET_KEY: s, OPENAI_API_KEY: sk}
`
)

// scaledObject is that of KEDA, as far as the chart uses it.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef  autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
		MinReplicaCount *int32                                    `json:"minReplicaCount"`
		MaxReplicaCount *int32                                    `json:"maxReplicaCount"`
		CooldownPeriod  *int32                                    `json:"cooldownPeriod"`
		Triggers        []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// serviceMonitor is that of the Prometheus Operator, as far as the chart uses it.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port          string `json:"port"`
			Path          string `json:"path"`
			Interval      string `json:"interval"`
			Authorization struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// prometheusRule is that of the Prometheus Operator, as far as the chart uses it.
type prometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

// objects are what the chart renders, by kind and name.
type objects map[string]any

// render renders the chart as helm install does, and decodes every object.
func render(release, values string) (objects, error) {
	c, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: "gateways", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, given, options, chartutil.DefaultCapabilities) // which checks the schema
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	found := objects{}
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			found["notes"] = text
			continue
		}
		for part := range strings.SplitSeq(text, "\n---\n") {
			if strings.TrimSpace(part) == "" || strings.TrimSpace(part) == "---" {
				continue
			}
			if err := found.add(part); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, part)
			}
		}
	}
	return found, nil
}

// add decodes an object.
func (o objects) add(text string) error {
	var head metav1.PartialObjectMetadata
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		return err
	}
	var v any
	switch kind := head.APIVersion + " " + head.Kind; kind {
	case "apps/v1 Deployment":
		v = new(appsv1.Deployment)
	case "apps/v1 StatefulSet":
		v = new(appsv1.StatefulSet)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		v = new(autoscalingv2.HorizontalPodAutoscaler)
	case "keda.sh/v1alpha1 ScaledObject":
		v = new(scaledObject)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		v = new(serviceMonitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		v = new(prometheusRule)
	case "networking.k8s.io/v1 NetworkPolicy":
		v = new(networkingv1.NetworkPolicy)
	case "policy/v1 PodDisruptionBudget":
		v = new(policyv1.PodDisruptionBudget)
	case "v1 ConfigMap":
		v = new(corev1.ConfigMap)
	case "v1 Secret":
		v = new(corev1.Secret)
	case "v1 Service":
		v = new(corev1.Service)
	case "v1 ServiceAccount":
		v = new(corev1.ServiceAccount)
	default:
		return fmt.Errorf("unknown kind %q", kind)
	}
	if problems := validation.IsDNS1123Label(head.Name); len(problems) > 0 {
		return fmt.Errorf("the name %q: %v", head.Name, problems)
	}
	for name, value := range head.Labels {
		if problems := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			return fmt.Errorf("the label %s: %q: %v", name, value, problems)
		}
	}
	if o[head.Kind+" "+head.Name] != nil {
		return errors.New("the object is duplicated")
	}
	o[head.Kind+" "+head.Name] = v
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(data, v) // as a cluster does: targetport is not targetPort
	return errors.Join(append(unknown, err)...)
}

func mustRender(t *testing.T, values string) objects {
	t.Helper()
	o, err := render("modelgate", values)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// of returns the object of a kind and a name.
func of[T any](t *testing.T, o objects, kind, name string) *T {
	t.Helper()
	v, ok := o[kind+" "+name].(*T)
	if !ok {
		t.Fatalf("%s %s is missing", kind, name)
	}
	return v
}

// pod returns the pod of a node, and what selects it.
func pod(t *testing.T, o objects) (corev1.PodTemplateSpec, *metav1.LabelSelector) {
	t.Helper()
	if d, ok := o["Deployment modelgate"].(*appsv1.Deployment); ok {
		return d.Spec.Template, d.Spec.Selector
	}
	s := of[appsv1.StatefulSet](t, o, "StatefulSet", "modelgate")
	return s.Spec.Template, s.Spec.Selector
}

// sets are values for the tests that hold for all.
var sets = map[string]string{
	"one": one,
	"one with everything": one + `
settings: {log: {level: debug}, batches: {max_lines: 1000000}, providers: [{slug: fast, provider: groq, api_key: "${MODELGATE_ADMIN_TOKEN}"}]}
publicURL: https://gateway.example.com
authorities: company
env: {HTTPS_PROXY: "http://proxy:3128", NO_PROXY: ".internal"}
image: {repository: registry.example.com/modelgate, tag: "1.2.3", pullSecrets: [registry]}
volume: {size: 5Gi, storageClass: fast}
serviceAccount: {annotations: {a: b}}
pod: {annotations: {a: b}, labels: {team: x}, nodeSelector: {disk: ssd}, tolerations: [{key: k, operator: Exists}], priorityClassName: high, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}
service: {type: LoadBalancer, port: 443, annotations: {a: b}}
networkPolicy: {clients: [{podSelector: {matchLabels: {app: x}}}], monitoring: [{namespaceSelector: {matchLabels: {n: m}}}], egress: [{ports: [{port: 443}]}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}, runbooks: "https://wiki.example.com/"}
drainSeconds: 300
`,
	"several":               shared,
	"several without Redis": strings.Replace(shared, "redis: true, ", "", 1),
	"scaled":                strings.Replace(shared, "replicas: 3", "hpa: {enabled: true, min: 3, max: 9}", 1),
	"scaled by KEDA": shared + `keda: {enabled: true, prometheus: "http://prometheus:9090"}
`,
	"secret of yours": `replicas: 2
shared: {postgres: true, redis: true, s3: {endpoint: "https://s3.example.com", region: x, bucket: files}}
secret: {existing: mine}
serviceAccount: {name: mine}
networkPolicy: {enabled: false}
`,
	"one node with PostgreSQL": `shared: {postgres: true}
secret: {existing: mine}
`,
}
