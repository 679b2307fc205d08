package controlplane

import (
	"errors"
	"net/url"
	"testing"

	"modelgate/internal/base/apierr"
)

// FuzzLogFilters reads queries of the log and of its tail: every refusal names
// the parameter.
func FuzzLogFilters(f *testing.F) {
	for _, seed := range []string{"status=5xx&limit=10", "from=2026-01-01T00:00:00Z&to=x", "metadata.a=b&metadata.=c", "total_units_min=-1", "cost_max=1e400", "weighted_feedback_min=NaN", "limit=1&limit=2", "unknown=1", "status=9999xx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		_, err = parseQuery(values)
		_, tailErr := parseTail(values)
		for _, err := range []error{err, tailErr} {
			if err == nil {
				continue
			}
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Param == "" && !values.Has("") {
				t.Errorf("%q: %v does not name the parameter", query, err)
			}
		}
	})
}

// FuzzFeedback reads opinions as POST /v1/feedback does.
func FuzzFeedback(f *testing.F) {
	f.Add([]byte(`{"trace_id":"t","value":5,"weight":0.5,"metadata":{"a":"b"}}`))
	f.Add([]byte(`[{"trace_id":"t","value":1e2}]`))
	f.Add([]byte(`{"trace_id":"t","value":-10,"weight":1.0000001}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var in oneOrMany[map[string]any]
		if in.UnmarshalJSON(body) != nil {
			return
		}
		list, err := in.elements(10)
		if err != nil {
			return
		}
		for _, e := range list {
			o, err := readOpinion(e)
			if err == nil && (o.TraceID == "" || o.Value < -maxValue || o.Value > maxValue || o.Weight < 0 || o.Weight > 1) {
				t.Errorf("readOpinion(%s) = %+v", e.raw, o)
			}
		}
	})
}
