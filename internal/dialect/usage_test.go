package dialect_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

func TestCounterRefusesInvalidCounts(t *testing.T) {
	for _, tt := range []struct {
		json string
		want int64
		c    dialect.Counter
	}{
		{`0`, 0, dialect.Counter{Known: true}}, {`700`, 700, dialect.Counter{Known: true}}, {`700.0`, 700, dialect.Counter{Known: true}},
		{`4294967296`, 1 << 32, dialect.Counter{Known: true}}, {`null`, 0, dialect.Counter{}},
		{`4294967297`, 0, dialect.Counter{Invalid: true}}, {`1e3`, 0, dialect.Counter{Invalid: true}}, {`1E3`, 0, dialect.Counter{Invalid: true}}, {`1.0e3`, 0, dialect.Counter{Invalid: true}},
		{`"700"`, 0, dialect.Counter{Invalid: true}}, {`-1`, 0, dialect.Counter{Invalid: true}}, {`-0`, 0, dialect.Counter{Invalid: true}}, {`0.5`, 0, dialect.Counter{Invalid: true}},
		{`9223372036854775808`, 0, dialect.Counter{Invalid: true}}, {`18446744073709551716`, 0, dialect.Counter{Invalid: true}}, {`1e400`, 0, dialect.Counter{Invalid: true}},
		{`true`, 0, dialect.Counter{Invalid: true}}, {`[700]`, 0, dialect.Counter{Invalid: true}}, {`{}`, 0, dialect.Counter{Invalid: true}},
	} {
		t.Run(tt.json, func(t *testing.T) {
			v, err := jsonedit.ParseValue([]byte(tt.json))
			if err != nil {
				t.Fatal(err)
			}
			var c dialect.Counter
			if got := c.Read(v); got != tt.want && !c.Invalid || c != tt.c {
				t.Errorf("Read(%s) = %d, %+v, want %d, %+v", tt.json, got, c, tt.want, tt.c)
			}
		})
	}
}

func TestUsageWithAnInvalidCountIsUnknown(t *testing.T) {
	v, err := jsonedit.ParseValue([]byte(`{"in":12,"out":"9"}`))
	if err != nil {
		t.Fatal(err)
	}
	var c dialect.Counter
	u := llm.Usage{Input: c.ReadMember(v, "in"), Output: c.ReadMember(v, "out"), CachedInput: c.ReadMember(v, "missing")}
	c.Mark(&u)
	if want := (llm.Usage{Input: 12, Invalid: true}); u != want {
		t.Errorf("usage %+v, want %+v", u, want)
	}
}
