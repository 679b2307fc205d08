package exports

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"testing"

	"modelgate/internal/format/parquet"
	"modelgate/internal/records/reqlog"
)

// Spreadsheets of languages with a decimal comma begin a cell at a semicolon, whatever the
// quotes of the file.
func TestSpreadsheetsRunNoText(t *testing.T) {
	for text, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@a": "'@a", "\t=1": "'\t'=1", "\r=1": "'\r'=1", "\n=1": "'\n'=1",
		"\uff1d1": "'\uff1d1", "\uff0b1": "'\uff0b1", "\uff0d1": "'\uff0d1", "\uff20a": "'\uff20a",
		" =1": " '=1", "\ufeff=1": "\ufeff'=1", "\u00a0=1": "\u00a0'=1",
		"a;=1": "a;'=1", "a; @b": "a; '@b", "a\n-1": "a\n'-1", "a\t+1": "a\t'+1",
		"gpt-4o": "gpt-4o", "a=b": "a=b", "a@b.example": "a@b.example", "": "", "a;b": "a;b", "a ;b -c": "a ;b -c",
	} {
		if got := escapeFormulas(text, apostrophe); got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
	const object = `{"a":"x;=1","b":"` + "\uff1d" + `; -2","c":"=y","=d":-1}`
	got := escapeFormulas(object, escapeJSON)
	if want := `{"a":"x;\u003d1","b":"` + "\uff1d" + `; \u002d2","c":"=y","=d":-1}`; got != want {
		t.Errorf("written as %s, want %s", got, want)
	}
	var before, after any
	if json.Unmarshal([]byte(object), &before) != nil || json.Unmarshal([]byte(got), &after) != nil || !jsonEqual(before, after) {
		t.Errorf("%s has another value than %s", got, object)
	}
}

func TestCellsWithJSONKeepItsValue(t *testing.T) {
	const text = `{"a":"x;=1","b":"y; @z"}`
	of := func(v any) func(*reqlog.Entry) any { return func(*reqlog.Entry) any { return v } }
	var out bytes.Buffer
	table, err := newTable(&out, []field{
		{parquet.Column{Name: "metadata"}, of(object(text))}, {parquet.Column{Name: "model"}, of(text)},
	})
	if err != nil || table.row(&reqlog.Entry{}) != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("the file has the rows %q, %v", rows, err)
	}
	var before, after any
	if json.Unmarshal([]byte(text), &before) != nil || json.Unmarshal([]byte(rows[1][0]), &after) != nil || !jsonEqual(before, after) {
		t.Errorf("JSON is written as %s, which has another value than %s", rows[1][0], text)
	}
	if want := `{"a":"x;'=1","b":"y; '@z"}`; rows[1][1] != want {
		t.Errorf("text is written as %s, want %s", rows[1][1], want)
	}
}

func jsonEqual(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
