package security

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// exportFile exports the fields of the log as CSV and returns the id and the link.
func (g *gateway) exportFile(t *testing.T, token, fields string) (id, link string) {
	t.Helper()
	now := time.Now().UTC()
	id = g.create(t, token, "/v1/logs/exports", fmt.Sprintf(`{"workspace_id":"default","format":"csv","requested_data":[%s],"filters":{"time_of_generation_min":%q,"time_of_generation_max":%q}}`,
		fields, now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)), "id")
	path := "/v1/logs/exports/" + id
	g.as(t, token, "POST", path+"/start", "").ok(t)
	waittest.Until(t, "the export is written", func() bool { return g.as(t, token, "GET", path, "").ok(t).text(t, "status") == "success" })
	return id, strings.TrimPrefix(g.as(t, token, "GET", path+"/download", "").ok(t).text(t, "signed_url"), g.root)
}

// TestFilesOfExportsRunNothingAndAreWithdrawn puts formulas into what the log records, and
// fetches files whose fields the organisation excludes later.
func TestFilesOfExportsRunNothingAndAreWithdrawn(t *testing.T) {
	t.Parallel()
	g, p := launch(t, options{}), newProvider(t, nil)
	for _, text := range []string{"=1+1", "\n=1+1", "\uff1d1+1", "x;=1+1", "x\t@SUM(1)", "x\r-1"} {
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}]}`, text)
		g.do(t, "POST", "/v1/chat/completions", body, toCustomHost(rootKey, p, "x-gateway-metadata", fmt.Sprintf(`{"a":%q}`, "x;"+text))...).ok(t)
	}
	_, link := g.exportFile(t, rootKey, `"id","ai_model","metadata"`)
	attack(t, "log and export", "formulas in models and metadata, in spreadsheets of any language", func(t *testing.T) {
		file := string(g.do(t, "GET", link, "").ok(t).body)
		rows, err := csv.NewReader(strings.NewReader(file)).ReadAll()
		if err != nil || len(rows) != 7 {
			t.Fatalf("%d rows (%v), want 7: %s", len(rows), err, file)
		}
		cell := func(r rune) bool { return strings.ContainsRune(";\t\r\n", r) }
		for _, row := range rows {
			for _, text := range row {
				for part := range strings.FieldsFuncSeq(text, cell) {
					if strings.IndexAny(strings.TrimSpace(part), "=+-@\uff1d") == 0 {
						t.Errorf("the cell %q may run %q", text, part)
					}
				}
			}
		}
	})
	attack(t, "log and export", "a link to a file with a field that was excluded later", func(t *testing.T) {
		g.as(t, rootKey, "PUT", "/v1/admin/organisation", `{"settings":{"denied_fields":["metadata"]}}`)
		denied := g.as(t, rootKey, "GET", "/v1/logs/exports/field-restrictions", "").ok(t)
		if !strings.Contains(string(denied.body), "metadata") {
			t.Fatalf("the field is not excluded: %s", denied.body)
		}
		g.do(t, "GET", link, "").refused(t, http.StatusForbidden, "AB03")
	})
	attack(t, "log and export", "links that were changed, and those of other exports", func(t *testing.T) {
		id, link := g.exportFile(t, rootKey, `"id"`)
		other, _ := g.exportFile(t, rootKey, `"id"`)
		_, sum, _ := strings.Cut(link, "signature=")
		_, rest, _ := strings.Cut(link, "expires=")
		until, _, _ := strings.Cut(rest, "&")
		for _, changed := range []string{
			strings.Replace(link, id, other, 1), strings.Replace(link, id, strings.ToUpper(id), 1), strings.Replace(link, "expires="+until, "expires=9"+until, 1),
			strings.Replace(link, "expires="+until, "expires=%2B"+until, 1), link + "&signature=" + sum, link + "&x=1", link[:len(link)-1], strings.Replace(link, "signature="+sum, "signature="+strings.ToUpper(sum), 1),
			strings.Replace(link, "signature="+sum, "signature=", 1), strings.Replace(link, "/file", "/file/../file", 1), strings.Replace(link, id, "..%2f"+id, 1),
		} {
			if r := g.do(t, "GET", changed, ""); r.status == http.StatusOK {
				t.Errorf("%s is served: %.100s", changed, r.body)
			}
		}
		g.do(t, "GET", link, "").ok(t)
	})
}
