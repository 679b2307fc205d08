package deploy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"modelgate/internal/settings"
)

var update = flag.Bool("update", false, "write the schema of the settings into that of the chart")

// The chart accepts exactly the settings that the gateway has.
func TestSchemaOfTheChartHasThatOfTheSettings(t *testing.T) {
	t.Parallel()
	const name = "../../deploy/chart/values.schema.json"
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var chart, file map[string]any
	if err := json.Unmarshal(before, &chart); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(settings.Schema(), &file); err != nil {
		t.Fatal(err)
	}
	chart["$defs"] = file["$defs"] // to which the references lead
	delete(file, "$defs")
	delete(file, "$schema")
	chart["properties"].(map[string]any)["settings"] = file
	var after bytes.Buffer
	text := json.NewEncoder(&after)
	text.SetEscapeHTML(false)
	text.SetIndent("", " ")
	if err := text.Encode(chart); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(name, after.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(before, after.Bytes()) {
		t.Errorf("%s is out of date: go test ./test/deploy -run Schema -update", name)
	}
}
