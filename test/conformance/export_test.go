package conformance

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"modelgate/internal/testing/waittest"
)

// exported makes an export of the last hour and returns its file.
func (g *gateway) exported(t *testing.T, format string, fields ...string) string {
	t.Helper()
	now, names := time.Now().UTC(), `"`+strings.Join(fields, `","`)+`"`
	made := g.as(t, bootstrapKey, "POST", "/v1/logs/exports", fmt.Sprintf(`{"workspace_id":"default","format":%q,"requested_data":[%s],"filters":{"time_of_generation_min":%q,"time_of_generation_max":%q}}`,
		format, names, now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))).wantOK(t).object(t)
	path := fmt.Sprintf("/v1/logs/exports/%s", made["id"])
	g.as(t, bootstrapKey, "GET", path+"/download", "").told(t, http.StatusBadRequest, "AB01")
	g.as(t, bootstrapKey, "POST", path+"/start", "").wantOK(t)
	waittest.Until(t, "the export is made", func() bool {
		return g.as(t, bootstrapKey, "GET", path, "").wantOK(t).object(t)["status"] == "success"
	})
	link := fmt.Sprint(g.as(t, bootstrapKey, "GET", path+"/download", "").wantOK(t).object(t)["signed_url"])
	rest, own := strings.CutPrefix(link, g.root)
	if !own {
		t.Fatalf("the link %s is not one of the gateway's, which is at %s", link, g.root)
	}
	return string(g.do(t, "GET", rest, "").wantOK(t).body) // without a key
}

func TestPartsOfTheLogAreExported(t *testing.T) {
	prove(t, "S-541", "exports are made while it is not OFF", func(t *testing.T) {
		g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "DATA_EXPORTS_ENABLED=ON")
		p, chat := newProvider(t, nil), modelRoutes[0]
		var ids []string
		for range 3 {
			got := g.do(t, "POST", chat.path, chat.body, to(p)...).wantOK(t)
			ids = append(ids, got.header.Get("x-gateway-request-id"))
		}
		slices.Sort(ids) // those of one millisecond have no order
		var inLines, inTable []string
		for line := range strings.Lines(g.exported(t, "jsonl", "id", "total_units", "ai_model")) {
			var row struct {
				ID    string `json:"id"`
				Units int64  `json:"total_units"`
				Model string `json:"ai_model"`
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil || row.Units != 9 || row.Model != "m-1" {
				t.Errorf("%s: %v", line, err)
			}
			inLines = append(inLines, row.ID)
		}
		rows, err := csv.NewReader(strings.NewReader(g.exported(t, "csv", "id"))).ReadAll()
		for _, r := range rows[1:] {
			inTable = append(inTable, r[0])
		}
		slices.Sort(inLines)
		slices.Sort(inTable)
		if err != nil || !slices.Equal(inLines, ids) || !slices.Equal(inTable, ids) {
			t.Errorf("exported %v and %v, want %v; %v", inLines, inTable, ids, err)
		}
		type columns struct {
			ID    string `parquet:"id"`
			Units int64  `parquet:"total_units,optional"`
			Model string `parquet:"ai_model,optional"`
		}
		file := g.exported(t, "parquet", "id", "total_units", "ai_model")
		table, err := parquet.Read[columns](strings.NewReader(file), int64(len(file)))
		slices.SortFunc(table, func(a, b columns) int { return strings.Compare(a.ID, b.ID) })
		var want []columns
		for _, id := range ids {
			want = append(want, columns{id, 9, "m-1"})
		}
		if err != nil || !slices.Equal(table, want) {
			t.Errorf("the rows of Parquet are %+v, %v; want %+v", table, err, want)
		}
	})
}
