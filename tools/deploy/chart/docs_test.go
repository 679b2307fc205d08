package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Every file of values in the document can be installed as printed.
func TestValuesOfTheDocumentAreRendered(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n# values.yaml\n")[1:]
	if len(blocks) < 5 {
		t.Fatalf("the document has %d files of values", len(blocks))
	}
	for _, block := range blocks {
		values, _, _ := strings.Cut(block, "```")
		if _, err := render("modelgate", values); err != nil {
			t.Errorf("%v\n%s", err, values)
		}
	}
}

// The commands of the document name the chart, the Secret with the variables that the first values
// need, and a Service with its port.
func TestCommandsOfTheDocumentFitTheChart(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```sh\n")
	script, _, _ := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(string(text), "```yaml\n# values.yaml\n")
	values, _, _ := strings.Cut(rest, "```")
	word := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(script)
		if m == nil {
			t.Fatalf("%s is not in\n%s", pattern, script)
		}
		return m[1]
	}
	if chart := word(`helm install \S+ (\S+)`); filepath.Clean("../../../"+chart) != filepath.Clean(folder) {
		t.Errorf("the chart is %s, not %s", folder, chart)
	}
	found, err := render(word(`helm install (\S+)`), values)
	if err != nil {
		t.Fatal(err)
	}
	service, port, _ := strings.Cut(word(`service/(\S+ \d+:\d+)`), " ")
	_, port, _ = strings.Cut(port, ":")
	if s, ok := found["Service "+service].(*corev1.Service); !ok || fmt.Sprint(s.Spec.Ports[0].Port) != port {
		t.Errorf("no Service %s with the port %s: %v", service, port, found["Service "+service])
	}
	if secret := word(`create secret generic (\S+)`); !strings.Contains(values, "existing: "+secret+"}") {
		t.Errorf("the values do not name the Secret %s", secret)
	}
	// The same variables in a Secret of the chart pass its checks.
	values = strings.Replace(values, "secret: {existing: modelgate}\n", "", 1) + "secret:\n  values:\n"
	for _, m := range regexp.MustCompile(`--from-literal (\w+)=`).FindAllStringSubmatch(script, -1) {
		values += "    " + m[1] + ": mg-0123456789abcdef0123456789abcdef\n"
	}
	if _, err := render("modelgate", values); err != nil {
		t.Errorf("the Secret of the document lacks something: %v", err)
	}
}
