package exports

import (
	"encoding/json"
	"testing"
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

func jsonEqual(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
