package jsonedit_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"modelgate/internal/format/jsonedit"

	"pgregory.net/rapid"
)

func TestABuilderWritesItsInput(t *testing.T) {
	b := jsonedit.Append([]byte("data: "))
	b.Open('{')
	b.Name("a")
	b.Open('[')
	b.Int(-1)
	b.String("x\"\n")
	b.Open('{')
	b.Close('}')
	b.Null()
	b.Close(']')
	b.Key(`k"y`)
	b.Bool(true)
	b.Name("raw")
	b.Raw([]byte(`{"z":1}`))
	b.Name("nan")
	b.Float(math.NaN())
	b.Close('}')
	const want = `data: {"a":[-1,"x\"\n",{},null],"k\"y":true,"raw":{"z":1},"nan":null}`
	if got := string(b.Bytes()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestFloatsAreWrittenWithoutAnExponentUnlessVeryLargeOrSmall(t *testing.T) {
	for _, tt := range []struct {
		f    float64
		want string
	}{
		{0, "0"}, {1, "1"}, {-0.5, "-0.5"}, {0.1, "0.1"}, {21.25, "21.25"},
		{1e-6, "0.000001"}, {-1e-6, "-0.000001"}, {9.5e-7, "9.5e-07"}, {-9.5e-7, "-9.5e-07"},
		{999999999999999868928, "999999999999999900000"}, {1e21, "1e+21"}, {-1e21, "-1e+21"},
		{math.Inf(1), "null"}, {math.Inf(-1), "null"},
	} {
		var b jsonedit.Builder
		if b.Float(tt.f); string(b.Bytes()) != tt.want {
			t.Errorf("Float(%g) wrote %s, want %s", tt.f, b.Bytes(), tt.want)
		}
	}
}

// What is built reads back as what was meant, whatever it is.
func TestBuilderWritesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anything(3).Draw(t, "value")
		var b jsonedit.Builder
		write(&b, want)
		var got any
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", b.Bytes(), err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s reads as %#v, want %#v", b.Bytes(), got, want)
		}
	})
}

func write(b *jsonedit.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.Null()
	case bool:
		b.Bool(v)
	case float64:
		b.Float(v)
	case string:
		b.String(v)
	case []any:
		b.Open('[')
		for _, e := range v {
			write(b, e)
		}
		b.Close(']')
	case map[string]any:
		b.Open('{')
		for k, e := range v {
			b.Key(k)
			write(b, e)
		}
		b.Close('}')
	}
}

func anything(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.Float64().AsAny(),
	}
	if depth > 0 {
		leaves = append(leaves,
			rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(anything(depth-1), 0, 4).Draw(t, "array") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.MapOfN(rapid.String(), anything(depth-1), 0, 4).Draw(t, "object") }))
	}
	return rapid.OneOf(leaves...)
}

// A line break in the data of a server-sent event ends its line.
func TestALineHasNoLineBreaks(t *testing.T) {
	b := jsonedit.AppendLine([]byte("event: x\ndata: "))
	b.Open('[')
	b.Raw([]byte("{\r\n\"a\": \"b\\n\",\n\n\"c\":\r1}\n"))
	b.Raw(nil)
	b.Close(']')
	const want = "event: x\ndata: [{  \"a\": \"b\\n\",  \"c\": 1} ,null]"
	if got := string(b.Bytes()); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
