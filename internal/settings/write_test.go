package settings_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"modelgate/internal/settings"
)

// value is anything that JSON holds, with texts that YAML may take for something
// else.
func value(depth int) *rapid.Generator[any] {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"", " ", "null", "~", "yes", "No", "on", "1", "1e3", "0x1f", ".5", "-", "- a", "a: b", "a #b", "#", "@x", "*", "&a", "!t", "|", ">", "%", "`", "'", "\"", "{", "[", "?", ":",
		"<<", "=", "2024-01-01", "12:30", "\n", "a\nb", "\ttab", "\u2028", "\u0085", "\ufeff", "é", "😀", "\x7f", "\x01", "a\\b", "trailing ", "${NAME}", "true", ".inf", "NaN", "key:", "a,b",
	}))
	scalar := []*rapid.Generator[any]{
		text.AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil), rapid.Int32().AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.Float64Range(-1e300, 1e300).AsAny(), rapid.Int64().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(scalar...)
	}
	return rapid.OneOf(append(scalar, rapid.SliceOfN(value(depth-1), 0, 3).AsAny(), rapid.MapOfN(text, value(depth-1), 0, 3).AsAny())...)
}

func TestWrittenSettingsAreReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.String(), value(2), 1, 3).Draw(t, "object")
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		name := rapid.StringN(1, 50, 200).Draw(t, "name")
		s := &settings.Settings{Workspaces: []settings.Workspace{{Slug: "a", Name: name, Settings: raw}}}
		var first, second bytes.Buffer
		if err := s.WriteState(&first); err != nil {
			t.Fatal(err)
		}
		again, err := settings.ParseState("f", first.Bytes(), settings.SecretResolver{Env: os.LookupEnv})
		if err != nil {
			t.Fatalf("%v of\n%s", err, first.String())
		}
		if again.Workspaces[0].Name != name {
			t.Fatalf("name %q came back as %q in\n%s", name, again.Workspaces[0].Name, first.String())
		}
		var got, want any
		if json.Unmarshal(again.Workspaces[0].Settings, &got) != nil || json.Unmarshal(raw, &want) != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s came back as %s in\n%s", raw, again.Workspaces[0].Settings, first.String())
		}
		if err := again.WriteState(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("written again: %v\n%s\n%s", err, first.String(), second.String())
		}
	})
}
