package exports_test

import (
	"strings"
	"testing"

	"modelgate/internal/controlplane/exports"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
)

// TestFiltersOfExportsHaveOneName drafts exports with other names of filters and relative times.
func TestFiltersOfExportsHaveOneName(t *testing.T) {
	d := newDesk(t)
	for i, code := range []string{"", "timeout", "timeout"} {
		e := &reqlog.Entry{Result: reqlog.Result{Status: 200 + 304*min(i, 1), ErrorCode: code}, Charge: reqlog.Charge{Priced: true, Cost: catalog.NanoDollars(i * 100)}}
		e.Config, e.ConfigVersion, e.TargetName = "c1", int64(1+i), "cheap"
		d.record(e)
	}
	for filters, rows := range map[string]int{
		`"from":"1d","to":"+1h"`: 3, `"time_of_generation_min":"now-1d","to":"now+1h"`: 3, `"from":"1d","to":"+1h","status":"5xx"`: 2,
		`"from":"1d","to":"+1h","status_code":["200","5xx"]`: 3, `"from":"1d","to":"+1h","error_code":["timeout"]`: 2,
		`"from":"1d","to":"+1h","cost_nano_usd_min":200`: 1, `"from":"1d","to":"+1h","cost_nano_usd_max":100`: 2, `"from":"1d","to":"+1h","target":"cheap"`: 3,
		`"from":"1d","to":"+1h","target":"dear"`: 0, `"from":"2d","to":"1d"`: 0,
	} {
		var out struct{ ID string }
		d.root.Must("POST", "/logs/exports", `{"workspace_id":"default","requested_data":["id","error_code"],"filters":{`+filters+`}}`, &out)
		if got := strings.Count(d.download(d.root, out.ID), "\n"); got != rows {
			t.Errorf("%s: %d rows, want %d", filters, got, rows)
		}
	}
	for filters, want := range map[string]string{
		`"from":"soon","to":"now"`: `"param":"filters.from"`, `"time_of_generation_min":"soon","to":"now"`: `"param":"filters.time_of_generation_min"`,
		`"from":"1d","time_of_generation_min":"1d","to":"now"`: "is another name of time_of_generation_min", `"from":"1d","to":"now","from":"1d"`: "duplicated",
		`"from":"1d","to":"now","cost_min":1,"cost_nano_usd_min":1`: "filters.cost_min", `"from":"1d","to":"now","status":"6"`: `"param":"filters.status"`,
		`"from":"1d","to":"now","error_code":"tiemout"`: "did you mean timeout?", `"from":"1d","to":"now","colour":"red"`: "colour",
		`"from":"1d","to":"now","cache_status":"MAYBE"`: "SEMANTIC HIT",
	} {
		if a := d.root.Call("POST", "/logs/exports", `{"workspace_id":"default","requested_data":["id"],"filters":{`+filters+`}}`); a.Status != 400 || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s, want 400 with %s", filters, a.Status, a.Body, want)
		}
	}
}

// TestDeniedCostsAreDeniedInEveryUnit excludes the cost: neither form of it is exported.
func TestDeniedCostsAreDeniedInEveryUnit(t *testing.T) {
	for _, denied := range []string{"cost", "cost_nano_usd"} {
		if got := exports.AllowedFields([]string{"id", "cost", "cost_nano_usd"}, []string{denied}); len(got) != 1 || got[0] != "id" {
			t.Errorf("without %s, %v is allowed", denied, got)
		}
	}
}
