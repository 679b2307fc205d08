package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/api"
	"modelgate/internal/records/reqlog"
)

func TestToolsOfPrometheusMetricsAreBounded(t *testing.T) {
	var m toolMetrics
	r := prometheus.NewRegistry()
	m.register(r)
	e := reqlog.Entry{}
	e.Operation, e.Provider, e.Slug, e.Status, e.Cost, e.Upstream = api.ToolCall, reqlog.ProviderTools, "github", 200, 1e9, time.Second
	for i := range maxKeys + 500 {
		e.Model = fmt.Sprintf("tool-%d", i)
		m.count(&e)
	}
	other := e
	other.Provider = "" // denied before it was sent
	m.count(&other)
	other = e
	other.Operation = api.Tools
	m.count(&other)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		total, rest := 0., 0.
		for _, s := range f.Metric {
			if s.Counter == nil {
				continue
			}
			total += s.Counter.GetValue()
			for _, l := range s.Label {
				if l.GetName() == "tool" && l.GetValue() == otherLabel {
					rest = s.Counter.GetValue()
				}
			}
		}
		if f.Metric[0].Counter != nil && (len(f.Metric) != maxKeys+1 || total != maxKeys+500 || rest != 500) {
			t.Errorf("%s has %d series that count %v, %v of them together", f.GetName(), len(f.Metric), total, rest)
		}
	}
}
