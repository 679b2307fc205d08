package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/config"
)

// request is what the queries of the tests are asked about.
var request = map[string]string{
	"metadata.plan":           `"paid"`,
	"metadata.age":            `"21"`,
	"metadata.n":              `"5"`,
	"metadata.size":           `"12abc"`,
	"metadata.empty":          `""`,
	"metadata.org.unit":       `"r&d \u00e9"`,
	"metadata.escaped":        `"\u00e9t\u00e9"`,
	"params.model":            `"gpt-5-mini"`,
	"params.n":                `5`,
	"params.temperature":      `0.70`,
	"params.big":              `12345678901234567890`,
	"params.stream":           `true`,
	"params.user":             `null`,
	"params.stop":             `["a", 1, null]`,
	"params.format":           `{"type":"json"}`,
	"params.messages[0].role": `"system"`,
	"headers.x-team":          `"Blue"`,
	"url.pathname":            `"/v1/chat/completions"`,
}

func lookup(path string) (json.RawMessage, bool) {
	v, ok := request[path]
	return json.RawMessage(v), ok
}

func TestQueriesHoldByTypeAndValue(t *testing.T) {
	for _, tt := range []struct {
		query string
		want  bool
	}{
		// A plain value is $eq: type and value.
		{`{"metadata.plan":"paid"}`, true},
		{`{"metadata.plan":"free"}`, false},
		{`{"metadata.n":5}`, false},
		{`{"metadata.n":"5"}`, true},
		{`{"params.n":5}`, true},
		{`{"params.n":5.0}`, true},
		{`{"params.n":"5"}`, false},
		{`{"params.stream":true}`, true},
		{`{"params.stream":"true"}`, false},
		{`{"params.user":null}`, true},
		{`{"params.absent":null}`, false},
		{`{"params.format":"json"}`, false},
		{`{"metadata.org.unit":"r&d é"}`, true},
		{`{"metadata.escaped":"été"}`, true},
		{`{"params.messages[0].role":"system"}`, true},
		{`{"headers.X-Team":"Blue"}`, true},
		{`{"headers.x-team":"blue"}`, false},

		{`{"metadata.plan":{"$eq":"paid"}}`, true},
		{`{"params.temperature":{"$eq":7e-1}}`, true},
		{`{"params.big":{"$eq":12345678901234567890}}`, true},
		{`{"params.big":{"$eq":12345678901234567891}}`, false},
		{`{"params.stop":{"$eq":"a"}}`, false},

		{`{"metadata.plan":{"$ne":"free"}}`, true},
		{`{"metadata.plan":{"$ne":"paid"}}`, false},
		{`{"metadata.absent":{"$ne":"x"}}`, true},
		{`{"metadata.absent":{"$ne":null}}`, true},
		{`{"params.n":{"$ne":"5"}}`, true},
		{`{"params.format":{"$ne":"x"}}`, true},

		{`{"params.model":{"$in":["a","gpt-5-mini"]}}`, true},
		{`{"params.n":{"$in":["5",6]}}`, false},
		{`{"params.user":{"$in":[null]}}`, true},
		{`{"metadata.absent":{"$in":["x"]}}`, false},
		{`{"params.model":{"$in":[]}}`, false},
		{`{"params.model":{"$nin":["a"]}}`, true},
		{`{"params.model":{"$nin":["gpt-5-mini"]}}`, false},
		{`{"metadata.absent":{"$nin":["x"]}}`, true},
		{`{"params.model":{"$nin":[]}}`, true},

		// Order is numeric; text counts by the number it begins with.
		{`{"metadata.age":{"$gte":18}}`, true},
		{`{"metadata.age":{"$gt":"9"}}`, true},
		{`{"metadata.age":{"$gt":21}}`, false},
		{`{"metadata.age":{"$gte":21,"$lte":21}}`, true},
		{`{"metadata.age":{"$lt":21}}`, false},
		{`{"metadata.age":{"$lt":21.5}}`, true},
		{`{"metadata.age":{"$lte":20.99}}`, false},
		{`{"metadata.size":{"$gt":11}}`, true},
		{`{"metadata.size":{"$lt":13}}`, true},
		{`{"metadata.plan":{"$gt":0}}`, false},
		{`{"metadata.plan":{"$lte":0}}`, false},
		{`{"metadata.empty":{"$lte":0}}`, false},
		{`{"params.stream":{"$gt":0}}`, false},
		{`{"params.user":{"$gte":0}}`, false},
		{`{"metadata.absent":{"$lt":5}}`, false},
		{`{"metadata.age":{"$gte":-1e1}}`, true},

		{`{"params.model":{"$regex":"^gpt-5"}}`, true},
		{`{"params.model":{"$regex":"mini"}}`, true},
		{`{"params.model":{"$regex":"^mini"}}`, false},
		{`{"params.model":{"$regex":"GPT"}}`, false},
		{`{"params.model":{"$regex":"(?i)GPT"}}`, true},
		{`{"params.n":{"$regex":"^5$"}}`, true},
		{`{"params.stream":{"$regex":"^true$"}}`, true},
		{`{"params.user":{"$regex":"."}}`, false},
		{`{"params.format":{"$regex":"."}}`, false},
		{`{"metadata.absent":{"$regex":"undefined"}}`, false},
		{`{"metadata.absent":{"$regex":""}}`, false},
		{`{"params.model":{"$regex":"^gpt","$ne":"gpt-5-mini"}}`, false},

		// The path of a request counts with and without its version.
		{`{"url.pathname":"/v1/chat/completions"}`, true},
		{`{"url.pathname":"/chat/completions"}`, true},
		{`{"url.pathname":{"$regex":"^/chat/"}}`, true},
		{`{"url.pathname":{"$regex":"^/v1/chat/"}}`, true},
		{`{"url.pathname":{"$ne":"/chat/completions"}}`, false},
		{`{"url.pathname":{"$nin":["/embeddings"]}}`, true},

		{`{"params.model":{"$contains":"5-m"}}`, true},
		{`{"params.stop":{"$contains":"a"}}`, true},
		{`{"params.stop":{"$contains":1.0}}`, true},
		{`{"params.stop":{"$contains":"b"}}`, false},
		{`{"params.n":{"$contains":5}}`, false},
		{`{"metadata.absent":{"$contains":""}}`, false},

		{`{"params.user":{"$exists":true}}`, true},
		{`{"params.format":{"$exists":true}}`, true},
		{`{"params.user":{"$exists":false}}`, false},
		{`{"metadata.absent":{"$exists":false}}`, true},
		{`{"metadata.absent":{"$exists":true}}`, false},

		// Siblings must all hold, joins included.
		{`{}`, true},
		{`{"metadata.plan":"paid","params.n":5}`, true},
		{`{"metadata.plan":"paid","params.n":6}`, false},
		{`{"$or":[{"metadata.plan":"paid"}],"params.n":6}`, false},
		{`{"params.n":6,"$or":[{"metadata.plan":"paid"}]}`, false},
		{`{"$or":[{"metadata.plan":"free"},{"params.model":{"$in":["gpt-5-mini"]}}]}`, true},
		{`{"$or":[{"metadata.plan":"free"},{"params.n":6}]}`, false},
		{`{"$and":[{"metadata.plan":"paid"},{"params.n":5}]}`, true},
		{`{"$and":[{"metadata.plan":"paid"},{"params.n":6}]}`, false},
		{`{"$and":[{"params.n":5}],"$or":[{"params.n":6}]}`, false},
		{`{"$or":[{"$and":[{"params.n":6}]},{"$or":[{"params.n":5}]}]}`, true},
		{`{"$not":{"metadata.plan":"free"}}`, true},
		{`{"$not":{"metadata.plan":"paid","params.n":6}}`, true},
		{`{"$not":{"metadata.plan":"paid","params.n":5}}`, false},
		{`{"params.model":{"$not":{"$regex":"^gpt"}}}`, false},
		{`{"metadata.absent":{"$not":{"$gt":1}}}`, true},
		{`{"metadata.age":{"$gt":18,"$not":{"$gt":30}}}`, true},
	} {
		t.Run(tt.query, func(t *testing.T) {
			q, err := config.ParseQuery([]byte(tt.query))
			if err != nil {
				t.Fatal(err)
			}
			if got := q.Match(lookup, new(config.Work)); got != tt.want {
				t.Errorf("Match = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestQueriesThatCannotBeMeantAreRefused(t *testing.T) {
	for _, tt := range []struct{ query, path, says string }{
		{`{"metadata.a":{"$like":"x"}}`, `$["metadata.a"].$like`, "use one of $eq"},
		{`{"$xor":[]}`, `$.$xor`, "use one of $and, $or, $not"},
		{`{"$eq":1}`, `$.$eq`, "needs a field"},
		{`{"plan":"x"}`, `$.plan`, "begin the path with"},
		{`{"metadata":"x"}`, `$.metadata`, "begin the path with"},
		{`{"metadata.":"x"}`, `$["metadata."]`, "begin the path with"},
		{`{"metadata.a":["x"]}`, `$["metadata.a"]`, `{"$in": [...]}`},
		{`{"metadata.a":{}}`, `$["metadata.a"]`, "has no operator"},
		{`{"metadata.a":{"$eq":{}}}`, `$["metadata.a"].$eq`, "plain value"},
		{`{"metadata.a":{"$in":"x"}}`, `$["metadata.a"].$in`, "array"},
		{`{"metadata.a":{"$nin":[["x"]]}}`, `$["metadata.a"].$nin`, "plain values"},
		{`{"metadata.a":{"$gt":"abc"}}`, `$["metadata.a"].$gt`, "number"},
		{`{"metadata.a":{"$exists":1}}`, `$["metadata.a"].$exists`, "true or false"},
		{`{"metadata.a":{"$regex":1}}`, `$["metadata.a"].$regex`, "string"},
		{`{"metadata.a":{"$regex":"a(?=b)"}}`, `$["metadata.a"].$regex`, "RE2"},
		{`{"metadata.a":{"$regex":"(a)\\1"}}`, `$["metadata.a"].$regex`, "RE2"},
		{`{"metadata.a":{"$regex":"("}}`, `$["metadata.a"].$regex`, "RE2"},
		{`{"metadata.a":{"$not":"x"}}`, `$["metadata.a"].$not`, "operators"},
		{`{"$and":{}}`, `$.$and`, "must be an array"},
		{`{"$or":[]}`, `$.$or`, "at least one query"},
		{`{"$or":[1]}`, `$.$or[0]`, "must be an object"},
		{`{"$not":[]}`, `$.$not`, "must be an object"},
		{`[]`, `$`, "must be an object"},
	} {
		t.Run(tt.query, func(t *testing.T) {
			_, err := config.ParseQuery([]byte(tt.query))
			want := "AB01: invalid config: " + tt.path + " "
			if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error = %v, want one at %s that says %q", err, tt.path, tt.says)
			}
		})
	}
}

func TestQueriesNestedWithoutEndAreRefused(t *testing.T) {
	for _, tt := range []struct{ open, inner, end string }{
		{`{"$not":`, `{"metadata.a":1}`, `}`},
		{`{"$and":[`, `{"metadata.a":1}`, `]}`},
		{`{"$or":[`, `{"metadata.a":1}`, `]}`},
	} {
		deep := func(n int) string { return strings.Repeat(tt.open, n) + tt.inner + strings.Repeat(tt.end, n) }
		if _, err := config.ParseQuery([]byte(deep(config.MaxDepth))); err != nil {
			t.Errorf("%s at depth %d: %v, want a query", tt.open, config.MaxDepth, err)
		}
		if _, err := config.ParseQuery([]byte(deep(config.MaxDepth + 1))); err == nil {
			t.Errorf("%s at depth %d is accepted", tt.open, config.MaxDepth+1)
		}
	}
	tests := func(n int) string {
		return `{"metadata.a":` + strings.Repeat(`{"$not":`, n) + `{"$eq":1}` + strings.Repeat(`}`, n) + `}`
	}
	if _, err := config.ParseQuery([]byte(tests(config.MaxDepth))); err != nil {
		t.Errorf("tests at depth %d: %v, want a query", config.MaxDepth, err)
	}
	if _, err := config.ParseQuery([]byte(tests(config.MaxDepth + 1))); err == nil {
		t.Errorf("tests at depth %d are accepted", config.MaxDepth+1)
	}
}

// A value that is not JSON, as a careless lookup might give, matches nothing.
func TestBrokenValuesOfALookupDoNotMatch(t *testing.T) {
	for _, raw := range []string{``, `"`, `"\`, `[`, `{`, `tru`, `1x`, `-`} {
		for _, test := range []string{`{"$eq":"x"}`, `{"$gt":5}`, `{"$contains":"x"}`, `{"$in":[true,null,2]}`} {
			q, err := config.ParseQuery(fmt.Appendf(nil, `{"params.a":%s}`, test))
			if err != nil {
				t.Fatal(err)
			}
			broken := func(string) (json.RawMessage, bool) { return json.RawMessage(raw), true }
			if q.Match(broken, new(config.Work)) {
				t.Errorf("%s matches %q", test, raw)
			}
		}
	}
}

func TestTextCountsByTheNumberItBeginsWith(t *testing.T) {
	for text, want := range map[string]string{
		"12": "12", "12abc": "12", " 12 ": "12", "+12": "12", "-12": "-12", "12-13": "12", "1.5": "1.5", "1.5.5": "1.5", "5.": "5", ".5": "0.5", "-.5x": "-0.5", "0": "0", "9": "9", "90": "90", "09": "9",
		"1e3": "1000", "1E3x": "1000", "1e+3": "1000", "15e-1": "1.5", "1e": "1", "1e+": "1", "1ex": "1", "2euros": "2", "5.e1": "50", "1e1.5": "10", "1/2": "1", "1:2": "1",
		"0x10": "0", "1_000": "1",
		"": "", "abc": "", ".": "", "-": "", "+": "", "--1": "", "+-1": "", "e3": "", ".e3": "", "-.": "", "$5": "", "/5": "", ":5": "", "Infinity": "", "NaN": "", "1e999": "",
	} {
		value, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		holds := func(test string) bool {
			q, err := config.ParseQuery([]byte(`{"metadata.a":` + test + `}`))
			if err != nil {
				t.Fatal(err)
			}
			return q.Match(func(string) (json.RawMessage, bool) { return value, true }, new(config.Work))
		}
		if want == "" {
			if holds(`{"$gte":0}`) || holds(`{"$lt":0}`) {
				t.Errorf("%q counts as a number, want it to be none", text)
			}
		} else if !holds(`{"$gte":` + want + `,"$lte":` + want + `}`) {
			t.Errorf("%q is not valid as %s", text, want)
		}
	}
}

func TestMatchingStopsAfterMaxWorkSteps(t *testing.T) {
	var work config.Work
	if !work.Spend(int(config.MaxWork)) || work.Exceeded() {
		t.Errorf("%d steps exceed the limit of %d", work, config.MaxWork)
	}
	if work.Spend(1) || !work.Exceeded() {
		t.Errorf("%d steps don't exceed the limit of %d", work, config.MaxWork)
	}
	q, err := config.ParseQuery([]byte(`{"metadata.plan":"paid"}`))
	if err != nil {
		t.Fatal(err)
	}
	if q.Match(lookup, &work) {
		t.Error("a query holds beyond the limit")
	}
}

// A pattern is matched against each byte of a text and its end.
func TestTheWorkOfAPatternGrowsWithItsText(t *testing.T) {
	steps := func(pattern string, length int) config.Work {
		q, err := config.ParseQuery(fmt.Appendf(nil, `{"metadata.a":{"$regex":%q}}`, pattern))
		if err != nil {
			t.Fatal(err)
		}
		var work config.Work
		q.Match(func(string) (json.RawMessage, bool) { return fmt.Appendf(nil, "%q", strings.Repeat("x", length)), true }, &work)
		return work
	}
	one := steps("abcde", 0)
	if one < 5 {
		t.Errorf("matching 5 letters against nothing takes %d steps, want at least 5", one)
	}
	if got := steps("abcde", 9); got != 10*one {
		t.Errorf("matching 9 bytes takes %d steps, want ten times the %d of no byte", got, one)
	}
	q, err := config.ParseQuery([]byte(`{"$or":[{"metadata.a":{"$regex":"abcde"}},{"metadata.a":{"$regex":"abcde"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var two config.Work
	q.Match(func(string) (json.RawMessage, bool) { return json.RawMessage(`""`), true }, &two)
	if two != 2*one {
		t.Errorf("matching the same pattern twice takes %d steps, want twice %d", two, one)
	}
	if got := steps("abcdeabcde", 9); got <= 10*one {
		t.Errorf("matching a longer pattern takes %d steps, want more than %d", got, 10*one)
	}
}

func TestQueriesPrintTheirCanonicalForm(t *testing.T) {
	q, err := config.ParseQuery([]byte(`{"params.n":{"$gt":1.0},"$and":[{"headers.X-A":"b"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"$and":[{"headers.x-a":{"$eq":"b"}},{"params.n":{"$gt":1}}]}`
	if got := q.String(); got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
}

func BenchmarkMatch(b *testing.B) {
	q, err := config.ParseQuery([]byte(`{"metadata.plan":"paid","params.model":{"$regex":"^gpt"},"metadata.age":{"$gte":18}}`))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		q.Match(lookup, new(config.Work))
	}
}
