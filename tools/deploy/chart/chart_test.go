package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

func TestPodsMayDoLittle(t *testing.T) {
	for name, values := range sets {
		t.Run(name, func(t *testing.T) {
			template, _ := pod(t, mustRender(t, values))
			of, c := template.Spec.SecurityContext, template.Spec.Containers[0].SecurityContext
			if !*of.RunAsNonRoot || *of.RunAsUser == 0 || *of.FSGroup == 0 || of.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("the pod may do %+v", of)
			}
			if *c.AllowPrivilegeEscalation || *c.Privileged || !*c.ReadOnlyRootFilesystem || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0 {
				t.Errorf("the container may do %+v", c)
			}
			if *template.Spec.AutomountServiceAccountToken || len(template.Spec.Containers) != 1 || template.Spec.HostNetwork {
				t.Error("the pod has a token of the cluster, other containers or the network of the machine")
			}
			for _, v := range template.Spec.Volumes {
				if v.HostPath != nil {
					t.Errorf("the volume %s is of the machine", v.Name)
				}
			}
		})
	}
}

// Every selector selects the pods, every name of a port, a volume and an object is one.
func TestObjectsFitTogether(t *testing.T) {
	for name, values := range sets {
		t.Run(name, func(t *testing.T) {
			o := mustRender(t, values)
			template, own := pod(t, o)
			selects := func(what string, labels map[string]string) {
				for k, v := range labels {
					if template.Labels[k] != v {
						t.Errorf("%s selects %s=%s, and the pods have %v", what, k, v, template.Labels)
					}
				}
				if len(labels) == 0 {
					t.Errorf("%s selects every pod", what)
				}
			}
			selects("the controller", own.MatchLabels)
			ports, volumes := map[string]bool{}, map[string]bool{}
			c := template.Spec.Containers[0]
			for _, p := range c.Ports {
				ports[p.Name] = true
			}
			for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				if p.HTTPGet.Port.StrVal != "admin" {
					t.Errorf("a probe asks %+v", p.HTTPGet)
				}
			}
			for _, v := range template.Spec.Volumes {
				volumes[v.Name] = true
			}
			if s, ok := o["StatefulSet modelgate"].(*appsv1.StatefulSet); ok {
				volumes[s.Spec.VolumeClaimTemplates[0].Name] = true
				of[corev1.Service](t, o, "Service", s.Spec.ServiceName)
			}
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("there is no volume %s", m.Name)
				}
			}
			if len(c.VolumeMounts) != len(volumes) {
				t.Errorf("%d of the volumes %v are mounted", len(c.VolumeMounts), volumes)
			}
			for _, v := range o {
				switch v := v.(type) {
				case *corev1.Service:
					selects("the service "+v.Name, v.Spec.Selector)
					if !ports[v.Spec.Ports[0].TargetPort.StrVal] {
						t.Errorf("the service %s leads to %+v", v.Name, v.Spec.Ports)
					}
				case *policyv1.PodDisruptionBudget:
					selects("the budget", v.Spec.Selector.MatchLabels)
				case *networkingv1.NetworkPolicy:
					selects("the policy", v.Spec.PodSelector.MatchLabels)
				case *serviceMonitor:
					service := of[corev1.Service](t, o, "Service", "modelgate-nodes")
					for k, want := range v.Spec.Selector.MatchLabels {
						if service.Labels[k] != want {
							t.Errorf("the monitor selects %s=%s, the service has %v", k, want, service.Labels)
						}
					}
					if v.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name || v.Spec.Endpoints[0].Authorization.Credentials.Key != "MODELGATE_ADMIN_TOKEN" {
						t.Errorf("the monitor reads %+v", v.Spec.Endpoints)
					}
				}
			}
		})
	}
}

// The gateway itself checks the settings, with the variables that the pod has.
func TestGatewayTakesTheSettings(t *testing.T) {
	program := os.Getenv("MODELGATE_BINARY")
	if program == "" {
		t.Fatal("set MODELGATE_BINARY to the program; TestDeployTools of test/deploy does")
	}
	help, err := exec.Command(program, "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	for name, values := range sets {
		t.Run(name, func(t *testing.T) {
			o := mustRender(t, values)
			file := filepath.Join(t.TempDir(), "modelgate.yaml")
			text := of[corev1.ConfigMap](t, o, "ConfigMap", "modelgate").Data["modelgate.yaml"]
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, "check", file)
			template, _ := pod(t, o)
			for _, e := range template.Spec.Containers[0].Env { // those of Secrets too, which the pod has to name
				cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
				if strings.HasPrefix(e.Name, "MODELGATE_") && !strings.Contains(string(help), e.Name) {
					t.Errorf("modelgate serve does not read %s", e.Name)
				}
				if e.ValueFrom != nil {
					cmd.Env[len(cmd.Env)-1] = e.Name + "=" + map[string]string{"REDIS_URL": "redis://redis:6379/0"}[e.Name]
					if e.Name != "REDIS_URL" {
						cmd.Env[len(cmd.Env)-1] = e.Name + "=0123456789abcdef"
					}
				}
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s\n%s", err, out, text)
			}
			if strings.Contains(values, "1000000") && !strings.Contains(text, "max_lines: 1000000\n") {
				t.Errorf("a large number is written in another way:\n%s", text)
			}
		})
	}
}

// The gateway has ended before Kubernetes ends it, and knows when to begin.
func TestOneValueIsTheDrainAndTheGracePeriod(t *testing.T) {
	for _, seconds := range []int64{0, 60, 300} {
		o := mustRender(t, one+fmt.Sprintf("drainSeconds: %d\n", seconds))
		template, _ := pod(t, o)
		text := of[corev1.ConfigMap](t, o, "ConfigMap", "modelgate").Data["modelgate.yaml"]
		var file struct{ Drain struct{ Min, Max string } }
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%ds", seconds); file.Drain.Max != want || file.Drain.Min != "10s" || *template.Spec.TerminationGracePeriodSeconds < seconds+10+15 {
			t.Errorf("%d seconds: the gateway has %+v, Kubernetes gives it %d seconds", seconds, file.Drain, *template.Spec.TerminationGracePeriodSeconds)
		}
		ready := template.Spec.Containers[0].ReadinessProbe
		if ready.PeriodSeconds*ready.FailureThreshold >= 10 {
			t.Errorf("that a node ends is noticed after %d seconds, and it accepts requests for 10", ready.PeriodSeconds*ready.FailureThreshold)
		}
	}
}

func TestOneNodeKeepsItsVolume(t *testing.T) {
	o := mustRender(t, sets["one with everything"])
	s := of[appsv1.StatefulSet](t, o, "StatefulSet", "modelgate")
	claim := s.Spec.VolumeClaimTemplates[0].Spec
	if *s.Spec.Replicas != 1 || claim.Resources.Requests.Storage().String() != "5Gi" || *claim.StorageClassName != "fast" {
		t.Errorf("the set is %+v", s.Spec)
	}
	if o["PodDisruptionBudget modelgate"] != nil {
		t.Error("a budget would keep the machine of the only node from being emptied")
	}
	if got := len(of[networkingv1.NetworkPolicy](t, o, "NetworkPolicy", "modelgate").Spec.Egress); got != 2 {
		t.Errorf("%d rules of egress, want that of DNS and the one given", got)
	}
}

func TestSeveralNodesAreReplacedWithoutGap(t *testing.T) {
	o := mustRender(t, shared)
	d := of[appsv1.Deployment](t, o, "Deployment", "modelgate")
	if r := d.Spec.Strategy.RollingUpdate; *d.Spec.Replicas != 3 || r.MaxUnavailable.IntValue() != 0 || r.MaxSurge.IntValue() != 1 {
		t.Errorf("the deployment is %+v", d.Spec)
	}
	if b := of[policyv1.PodDisruptionBudget](t, o, "PodDisruptionBudget", "modelgate"); b.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("the budget is %+v", b.Spec)
	}
	spread := d.Spec.Template.Spec.TopologySpreadConstraints
	if len(spread) != 2 || spread[0].LabelSelector.MatchLabels["app.kubernetes.io/instance"] != "modelgate" {
		t.Errorf("the nodes are spread by %+v", spread)
	}
	for _, kind := range []string{"HorizontalPodAutoscaler modelgate", "ScaledObject modelgate", "ServiceMonitor modelgate", "PrometheusRule modelgate"} {
		if o[kind] != nil {
			t.Errorf("%s is there without being asked for", kind)
		}
	}
}

// The rules are those of deploy/prometheus, which tools/deploy/prometheus tests.
func TestAlertRulesAreThoseOfTheFile(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/prometheus/modelgate.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want prometheusRule
	if err := yaml.Unmarshal(text, &want.Spec); err != nil {
		t.Fatal(err)
	}
	for runbooks, page := range map[string]string{"": "docs/", "https://wiki.example.com/": "https://wiki.example.com/docs/"} {
		o := mustRender(t, one+"prometheusRule: {enabled: true, labels: {release: prometheus}, runbooks: '"+runbooks+"'}\n")
		got := of[prometheusRule](t, o, "PrometheusRule", "modelgate")
		if got.Labels["release"] != "prometheus" || len(got.Spec.Groups) != len(want.Spec.Groups) {
			t.Fatalf("%d groups with the labels %v, want %d", len(got.Spec.Groups), got.Labels, len(want.Spec.Groups))
		}
		rules := 0
		for i, g := range got.Spec.Groups {
			for k, r := range g.Rules {
				w := want.Spec.Groups[i].Rules[k]
				if rules++; r.Alert != w.Alert || r.Expr != w.Expr || r.For != w.For || r.Annotations["description"] != w.Annotations["description"] {
					t.Errorf("the rule is %+v, want %+v", r, w)
				}
				if r.Alert == "" || !strings.HasPrefix(r.Annotations["runbook_url"], page) {
					t.Errorf("the page of %q is %q, want it to begin with %s", r.Alert, r.Annotations["runbook_url"], page)
				}
			}
		}
		if rules < 20 {
			t.Errorf("%d rules", rules)
		}
	}
	for _, bad := range []string{"https://wiki.example.com", "ftp://wiki/", "https://wiki/\"\nx: y/"} {
		if _, err := render("modelgate", one+fmt.Sprintf("prometheusRule: {enabled: true, runbooks: %q}\n", bad)); err == nil {
			t.Errorf("the address %q is accepted", bad)
		}
	}
}

// A number of replicas would be set back at each upgrade.
func TestScaledNodesHaveNoNumber(t *testing.T) {
	for _, name := range []string{"scaled", "scaled by KEDA"} {
		o := mustRender(t, sets[name])
		if d := of[appsv1.Deployment](t, o, "Deployment", "modelgate"); d.Spec.Replicas != nil {
			t.Errorf("%s: %d replicas", name, *d.Spec.Replicas)
		}
	}
	h := of[autoscalingv2.HorizontalPodAutoscaler](t, mustRender(t, sets["scaled"]), "HorizontalPodAutoscaler", "modelgate")
	if *h.Spec.MinReplicas != 3 || h.Spec.MaxReplicas != 9 || h.Spec.ScaleTargetRef.Kind != "Deployment" || h.Spec.ScaleTargetRef.Name != "modelgate" {
		t.Errorf("the scaling is %+v", h.Spec)
	}
	k := of[scaledObject](t, mustRender(t, sets["scaled by KEDA"]), "ScaledObject", "modelgate")
	if want := `sum(modelgate_requests_in_flight{namespace="gateways",service="modelgate-nodes"})`; k.Spec.Triggers[0].Metadata["query"] != want {
		t.Errorf("KEDA asks %v, want %s", k.Spec.Triggers, want)
	}
}

// Pods are replaced when their settings or the chart's secret change, and only then.
func TestChangedSettingsReplaceThePods(t *testing.T) {
	sums := func(values string) map[string]string {
		template, _ := pod(t, mustRender(t, values))
		return template.Annotations
	}
	before := sums(one)
	if again := sums(one); fmt.Sprint(again) != fmt.Sprint(before) {
		t.Errorf("the same values give %v and %v", before, again)
	}
	if after := sums(one + "settings: {log: {level: debug}}\n"); after["checksum/settings"] == before["checksum/settings"] || before["checksum/settings"] == "" {
		t.Errorf("changed settings give %v, before %v", after, before)
	}
	if after := sums(strings.Replace(one, "abcdef", "ABCDEF", 1)); after["checksum/secret"] == before["checksum/secret"] {
		t.Errorf("a changed secret gives %v, before %v", after, before)
	}
}

// Secrets are in the Secret and nowhere else.
func TestSecretsAreInTheSecretOnly(t *testing.T) {
	const canary = "canary-0123456789abcdef"
	o := mustRender(t, strings.ReplaceAll(shared, "0123456789abcdef", canary))
	for name, v := range o {
		text, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if found := bytes.Contains(text, []byte(canary)); found != (name == "Secret modelgate") {
			t.Errorf("%s has the token: %t", name, found)
		}
	}
	template, _ := pod(t, mustRender(t, sets["secret of yours"]))
	c := template.Spec.Containers[0]
	named := map[string]bool{}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef.Name == "mine" {
			named[e.Name] = true
		}
	}
	if len(named) != 5 || !named["DATABASE_URL"] || c.EnvFrom[0].SecretRef.Name != "mine" {
		t.Errorf("the pod reads %v of the secret", named)
	}
}

func TestOtherReleasesHaveOtherNames(t *testing.T) {
	for release, want := range map[string]string{"modelgate": "modelgate", "team-a": "team-a-modelgate", strings.Repeat("x", 53): strings.Repeat("x", 50)} {
		o, err := render(release, one)
		if err != nil {
			t.Fatal(err)
		}
		of[appsv1.StatefulSet](t, o, "StatefulSet", want)
	}
}

func TestImpossibleValuesAreRefused(t *testing.T) {
	for _, tt := range []struct{ values, want string }{
		{"", "the secret needs MODELGATE_ADMIN_TOKEN"},
		{"secret: {values: {MODELGATE_ADMIN_TOKEN: short}}", "needs 16 characters"},
		{one + "replicas: 2", "several nodes need one database: set shared.postgres"},
		{one + "hpa: {enabled: true}", "several nodes need one database"},
		{one + "shared: {postgres: true}", "the secret needs DATABASE_URL"},
		{"secret: {existing: mine}\nreplicas: 2\nshared: {postgres: true}", "several nodes need one place for files: set shared.s3"},
		{strings.Replace(shared, `REDIS_URL: "redis://redis:6379/0", `, "", 1), "the secret needs REDIS_URL"},
		{strings.Replace(shared, "S3_SECRET_KEY: s, ", "", 1), "the secret needs S3_SECRET_KEY"},
		{strings.Replace(shared, "redis: true, ", "", 1) + "settings: {limits: {counters: {store: memory}}}", "each of several nodes would count for itself"},
		{shared + "settings: {limits: {counters: {store: leased}}}", "both say where limits are counted"},
		{shared + "settings: {blob: {s3: {bucket: b}}}", "both say where files are"},
		{one + "settings: {drain: {max: 5s}}", "set drainSeconds instead of settings.drain"},
		{one + "publicURL: https://a.example\nsettings: {public_url: https://b.example}", "the same setting"},
		{shared + "hpa: {enabled: true}\nkeda: {enabled: true, prometheus: x}", "enable one"},
		{shared + "hpa: {enabled: true, min: 5, max: 2}", "hpa.min is greater than hpa.max"},
		{shared + "keda: {enabled: true}", "keda needs keda.prometheus"},
		{"secret: {existing: mine, values: {A: b}}", "set one of them"},
		{one + "env: {MODELGATE_LISTEN: x}", "env.MODELGATE_LISTEN is already set"},
		{one + "settings: {nothing: 1}", "nothing"}, // by the schema of the settings
		{one + "settings: {log: {level: loud}}", "level"},
		{one + "nothing: 1", "nothing"},
		{one + "replicas: 0", "replicas"},
		{one + "drainSeconds: -1", "drainSeconds"},
		{one + "image: {pullPolicy: Sometimes}", "pullPolicy"},
	} {
		if _, err := render("modelgate", tt.values); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\nfails with %v, want %q", tt.values, err, tt.want)
		}
	}
}

func TestChartIsLinted(t *testing.T) {
	for name, values := range sets {
		given, err := chartutil.ReadValues([]byte(values))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.AllWithKubeVersion(folder, given, "gateways", nil).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}
