package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/redact"
)

func mustNew(t testing.TB, r redact.Rules) *redact.Redactor {
	t.Helper()
	out, err := redact.New(r)
	if err != nil {
		t.Fatalf("New(%+v): %v", r, err)
	}
	return out
}

var jwt = "eyJ" + strings.Repeat("a1", 12) + ".eyJ" + strings.Repeat("b2", 12) + "." + strings.Repeat("c3", 12)

func TestPatternsFindWhatTheyAreFor(t *testing.T) {
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----"
	for _, tt := range []struct{ pattern, text, want string }{
		{"email", "to jo.doe+x@mail.example.co.uk, thanks", "to [redacted:email], thanks"},
		{"email", "a@b.io.", "[redacted:email]."},
		{"email", "Müller: jörg@bücher.de!", "Müller: [redacted:email]!"},
		{"email", "邮箱a.b@c.org。", "邮箱[redacted:email]。"},
		{"email", "@handle a@b x@y.1 @@ user@ @", "@handle a@b x@y.1 @@ user@ @"},
		{"email", "jo@mail.x and jo@mail.xy", "jo@mail.x and [redacted:email]"},
		{"email", "a@b.cc@d.ee", "[redacted:email]@d.ee"},
		{"email", "a@b.cc,d@e.ff", "[redacted:email],[redacted:email]"},
		{"email", "a@b.cc", "[redacted:email]"},
		{"email", "@x a@b.cc", "@x [redacted:email]"},
		{"email", "a@@ a@b.cc", "a@@ [redacted:email]"},
		{"email", "a@.b.cc a@b.cc-. a@-", "a@.b.cc [redacted:email]-. a@-"},
		{"email", strings.Repeat("a", 64) + "@b.cc", "[redacted:email]"},
		{"email", strings.Repeat("a", 65) + "@b.cc", "a[redacted:email]"},
		{"email", "a@" + strings.Repeat("b.", 126) + "ccc", "[redacted:email]"},
		{"email", "a@b.1a a@1.cc", "a@b.1a [redacted:email]"},
		{"phone", "call +49 171 1234567 now", "call [redacted:phone] now"},
		{"phone", "(555) 123-4567, 555.123.4567, 1-555-123-4567", "[redacted:phone], [redacted:phone], [redacted:phone]"},
		{"phone", "555-123-4567 8 times", "[redacted:phone] 8 times"},
		{"phone", "030 1234567 or 0171/1234567", "[redacted:phone] or [redacted:phone]"},
		{"phone", "2026-11-21 1763757000 0.1234567890 12345678901 01-02-2026 10", "2026-11-21 1763757000 0.1234567890 12345678901 01-02-2026 10"},
		{"phone", "0123456 78901 or +123 456", "0123456 78901 or +123 456"},
		{"phone", "id 555-123-4567-890", "id 555-123-4567-890"},
		{"phone", "+1234567", "[redacted:phone]"},
		{"phone", "+123456", "+123456"},
		{"phone", "+123456789012345", "[redacted:phone]"},
		{"phone", "+1234567890123456 +12345678901234567", "+1234567890123456 +12345678901234567"},
		{"phone", "+49 171 1234567- +49 171 1234567.", "[redacted:phone]- [redacted:phone]."},
		{"phone", "+49 171 1234567-", "[redacted:phone]-"},
		{"phone", "+49 171 1234567x _+49 171 1234567", "+49 171 1234567x _+49 171 1234567"},
		{"phone", "+(49) 171 1234567", "[redacted:phone]"},
		{"phone", "+49  171 1234567 +49   171 1234567", "[redacted:phone] +49   171 1234567"},
		{"phone", "+1 2 3 4 5 6 7", "+1 2 3 4 5 6 7"},
		{"phone", "555-123-4567", "[redacted:phone]"},
		{"phone", "555-123-456 55-123-4567 555-12-4567", "555-123-456 55-123-4567 555-12-4567"},
		{"phone", "555-123-4567-8", "555-123-4567-8"},
		{"phone", "555-123-4567.8", "555-123-4567.8"},
		{"phone", "030 123456", "[redacted:phone]"},
		{"phone", "030 12345", "030 12345"},
		{"phone", "0171 12345678", "[redacted:phone]"},
		{"phone", "0171 123456789", "0171 123456789"},
		{"phone", "03012 34567", "[redacted:phone]"},
		{"phone", "030123 4567, 03 1234 5678", "030123 4567, 03 1234 5678"},
		{"phone", "(030) 1234567", "[redacted:phone]"},
		{"phone", "130 1234567, 0301234567, 030.1234567", "130 1234567, 0301234567, 030.1234567"},
		{"phone", "call +", "call +"},
		{"credit_card", "4111 1111 1111 1111 and 5500-0000-0000-0004", "[redacted:credit_card] and [redacted:credit_card]"},
		{"credit_card", "n:378282246310005;", "n:[redacted:credit_card];"},
		{"credit_card", "12 4111111111111111 7", "12 [redacted:credit_card] 7"},
		{"credit_card", "4111 1111 1111 1112 x4111111111111111 1763757000000", "4111 1111 1111 1112 x4111111111111111 1763757000000"},
		{"credit_card", "4222222222222", "[redacted:credit_card]"},
		{"credit_card", "30569309025904 2221000000000009", "[redacted:credit_card] [redacted:credit_card]"},
		{"credit_card", "6011111111111117,5555555555554444", "[redacted:credit_card],[redacted:credit_card]"},
		{"credit_card", "4000000000000000006", "[redacted:credit_card]"},
		{"credit_card", "411111111117", "411111111117"},
		{"credit_card", "40000000000000000067", "40000000000000000067"},
		{"credit_card", "7111111111111114 1000000000000008", "7111111111111114 1000000000000008"},
		{"credit_card", "4111 1111 1111 1111 ", "[redacted:credit_card] "},
		{"credit_card", "4111 1111 1111 1112 ", "4111 1111 1111 1112 "},
		{"credit_card", "4111  1111 1111 1111", "4111  1111 1111 1111"},
		{"credit_card", "4111111111111111x 4111111111111111_", "4111111111111111x 4111111111111111_"},
		{"credit_card", "Z4111111111111111 z4111111111111111", "Z4111111111111111 z4111111111111111"},
		{"ssn", "ssn 219-09-9999.", "ssn [redacted:ssn]."},
		{"ssn", "000-12-3456 666-12-3456 912-12-3456 123-00-4567 123-45-0000 1123-45-6789", "000-12-3456 666-12-3456 912-12-3456 123-00-4567 123-45-0000 1123-45-6789"},
		{"ssn", "219-09-9999", "[redacted:ssn]"},
		{"ssn", "219-09-9999,078-05-1120", "[redacted:ssn],[redacted:ssn]"},
		{"ssn", "1-219-09-9999 219-09-9999-1 219-09-9999-", "1-219-09-9999 219-09-9999-1 219-09-9999-"},
		{"ssn", "219x09-9999 219-0909999 21a-09-9999 219-09-99", "219x09-9999 219-0909999 21a-09-9999 219-09-99"},
		{"ssn", "219-09-9999x 219-09-9999_ _219-09-9999", "219-09-9999x 219-09-9999_ _219-09-9999"},
		{"iban", "DE89370400440532013000, GB82 WEST 1234 5698 7654 32 is", "[redacted:iban], [redacted:iban] is"},
		{"iban", "DE89370400440532013001 AB12", "DE89370400440532013001 AB12"},
		{"iban", "NO9386011117947", "[redacted:iban]"},
		{"iban", "NO93 8601 1117 947 BE68539007547034 ", "[redacted:iban] [redacted:iban] "},
		{"iban", "BE68 5390 0754 7034  x", "[redacted:iban]  x"},
		{"iban", "MT84MALT011000012345MTLCAST001S", "[redacted:iban]"},
		{"iban", "FR14 2004 1010 0505 0001 3M02 606", "[redacted:iban]"},
		{"iban", "XA040000000000000ABCDEFGHIJKLMNOPQ", "[redacted:iban]"}, // 34, the most of the standard
		{"iban", "AA00" + strings.Repeat("A", 40), "AA00" + strings.Repeat("A", 40)},
		{"iban", "DE89370400440532013000X xDE89370400440532013000 De89370400440532013000", "DE89370400440532013000X xDE89370400440532013000 De89370400440532013000"},
		{"iban", "BE68  539007547034 BE 68539007547034", "BE68  539007547034 BE 68539007547034"},
		{"ipv4", "at 10.0.0.7:80, 256.1.1.1, 1.2.3, v1.2.3.4 1.2.3.4x", "at [redacted:ipv4]:80, 256.1.1.1, 1.2.3, v1.2.3.4 1.2.3.4x"},
		{"ipv4", "host 192.168.1.20.", "host [redacted:ipv4]."},
		{"ipv4", "10.0.0.7", "[redacted:ipv4]"},
		{"ipv4", "255.255.255.255.. .1.2.3.4 1.2.3.4.5 1.2.3.4_", "[redacted:ipv4].. .1.2.3.4 1.2.3.4.5 1.2.3.4_"},
		{"ipv4", ".10.20.30.40 1.2.3.4", ".10.20.30.40 [redacted:ipv4]"},
		{"ipv6", "[2001:db8::8a2e:370:7334] fe80::1ff:fe23.", "[[redacted:ipv6]] [redacted:ipv6]."},
		{"ipv6", "std::string a::b 12:30:45 ::", "std::string a::b 12:30:45 ::"},
		{"ipv6", "abcd::12", "[redacted:ipv6]"},
		{"ipv6", "a::bcf ABCF::1", "[redacted:ipv6] [redacted:ipv6]"},
		{"ipv6", "a::bc 12:34:56 abcd::1g", "a::bc 12:34:56 abcd::1g"},
		{"ipv6", "2001:db8:: 2001:db8::1: ::1234", "[redacted:ipv6] [redacted:ipv6]: [redacted:ipv6]"},
		{"ipv6", "::ffff:10.0.0.1", "[redacted:ipv6]"},
		{"ipv6", "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", "[redacted:ipv6]"},
		{"secret", "key sk-proj-abcdefghij0123456789.", "key [redacted:secret]."},
		{"secret", "AKIAIOSFODNN7EXAMPLE and mg-" + strings.Repeat("x", 43), "[redacted:secret] and [redacted:secret]"},
		{"secret", "Authorization: Bearer abcDEF0123456789xyz", "Authorization: Bearer [redacted:secret]"},
		{"secret", "bearer certificates, task-force sk-short", "bearer certificates, task-force sk-short"},
		{"secret", "token " + jwt + "!", "token [redacted:secret]!"},
		{"secret", "x " + pem + " y", "x [redacted:secret] y"},
		{"secret", "x " + pem[:50], "x [redacted:secret]"},
		{"secret", "sk-" + strings.Repeat("a", 16) + " sk-" + strings.Repeat("a", 15), "[redacted:secret] sk-" + strings.Repeat("a", 15)},
		{"secret", "xoxb-0123456789 xoxb-012345678 sk-...............", "[redacted:secret] xoxb-012345678 sk-..............."},
		{"secret", "Bearer abcdefghijklmnop bearer abcdefghijklmno", "Bearer [redacted:secret] bearer abcdefghijklmno"},
		{"secret", "eyJaaaaaaaaa.bbbbbbbb.cccccccc", "[redacted:secret]"},
		{"secret", "eyJaaaaaaaaa.bbbbbbbb.ccccccc eyJ" + strings.Repeat("a", 20) + ".bbbbbbbbbb", "eyJaaaaaaaaa.bbbbbbbb.ccccccc eyJ" + strings.Repeat("a", 20) + ".bbbbbbbbbb"},
		{"secret", pem, "[redacted:secret]"},
		{"secret", pem + " and " + pem + ".", "[redacted:secret] and [redacted:secret]."},
		{"secret", strings.Repeat("-", 30) + "eyJaaaaaaaaa.bbbbbbbb.ccccccc", strings.Repeat("-", 30) + "eyJaaaaaaaaa.bbbbbbbb.ccccccc"},
		{"secret", "sk-abcdefgh_ijklmnop", "[redacted:secret]"},
		{"secret", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"},
	} {
		if got := mustNew(t, redact.Rules{Patterns: []string{tt.pattern}}).Text(tt.text); got != tt.want {
			t.Errorf("%s of %q = %q, want %q", tt.pattern, tt.text, got, tt.want)
		}
	}
}

func TestOverlappingPatternsTakeOutAllThatEitherFinds(t *testing.T) {
	r := mustNew(t, redact.Rules{Patterns: []string{"email"}, Custom: []redact.Custom{{Name: "ticket", Pattern: `T-\d+`}, {Name: "tail", Pattern: `example\.org/\w+`}}})
	if got, want := r.Text("T-12 by a@example.org/path T-3"), "[redacted:ticket] by [redacted:email] [redacted:ticket]"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
}

func TestTheFirstAndThenTheLongestOfOverlappingPatternsGivesTheName(t *testing.T) {
	r := mustNew(t, redact.Rules{Custom: []redact.Custom{
		{Name: "short", Pattern: "ab"}, {Name: "long", Pattern: "abc"}, {Name: "late", Pattern: "cde"}, {Name: "next", Pattern: "xy"}, {Name: "one", Pattern: "q"},
	}})
	for text, want := range map[string]string{
		"ab.":   "[redacted:short].",
		"abc.":  "[redacted:long].",
		"abcde": "[redacted:long]",
		"cdexy": "[redacted:late][redacted:next]",
		"xycde": "[redacted:next][redacted:late]",
		"q":     "[redacted:one]",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestBodiesAreRedactedByTheirType(t *testing.T) {
	r := mustNew(t, redact.Rules{
		Patterns: []string{"email", "credit_card"},
		Fields:   []string{"password", "messages.*.content", "input.0", "list.1"},
	})
	for _, tt := range []struct{ name, media, body, want string }{
		{"JSON", "application/json", `{ "a" : "x@y.de\n" , "n":[1, true, null] }`, `{ "a" : "[redacted:email]\n" , "n":[1, true, null] }`},
		{"escapes stay", "application/json", `{"a":"\u00e9\/\ud83d\ude00"}`, `{"a":"\u00e9\/\ud83d\ude00"}`},
		{"an escaped sign", "application/json", `"x\u0040y.de \"q\""`, `"[redacted:email] \"q\""`},
		{"an escaped pair", "application/json", `"\ud83d\ude00 \ud83d x@y.de"`, "\"😀 \ufffd [redacted:email]\""},
		{"a number", "application/json", `{"card":4111111111111111,"n":12}`, `{"card":"[redacted:credit_card]","n":12}`},
		{"a name", "application/problem+json", `{"x@y.de":1}`, `{"[redacted:email]":1}`},
		{"a field anywhere", "application/json", `{"a":[{"password":{"x":["]\"}"]}}],"password":1}`, `{"a":[{"password":"[redacted:field]"}],"password":"[redacted:field]"}`},
		{"a path", "application/json", `{"messages":[{"role":"user","content":"hi"},{"content":[1]}],"content":"stays"}`, `{"messages":[{"role":"user","content":"[redacted:field]"},{"content":"[redacted:field]"}],"content":"stays"}`},
		{"an index", "application/json", `{"input":["a","b"]}`, `{"input":["[redacted:field]","b"]}`},
		{"an index after the first", "application/json", `{"list":["a","b","c"]}`, `{"list":["a","[redacted:field]","c"]}`},
		{"an escape at the start", "application/json", `"\u0078@y.de"`, `"[redacted:email]"`},
		{"an escape at the end", "application/json", `"x@y.de \u0041"`, `"[redacted:email] A"`},
		{"short escapes", "application/json", `"x@y.de \"\\\/\b\f\n\r\t"`, `"[redacted:email] \"\\/\b\f\n\r\t"`},
		{"a wrong escape", "application/json", `"x@y.de \q \u00g0"`, `"[redacted:email] \\q \\u00g0"`},
		{"a number alone", "application/json", `4111111111111111`, `"[redacted:credit_card]"`},
		{"cut after a backslash", "application/json", `{"a":"x@y.de \`, `{"a":"[redacted:email] \\`},
		{"a value that is a field's name", "application/json", `{"a":"password","b":["password"]}`, `{"a":"password","b":["password"]}`},
		{"cut in a string", "application/json", `{"a":"mail x@y.de and`, `{"a":"mail [redacted:email] and`},
		{"cut in a denied value", "application/json", `{"password":{"a":"b`, `{"password":"[redacted:field]"`},
		{"cut in an escape", "application/json", `{"a":"x@y.de \u00`, `{"a":"[redacted:email] \\u00`},
		{"no JSON at all", "application/json", `x@y.de } ] oops`, `"[redacted:email]" } ] oops`},
		{"events", "text/event-stream", "event: x\ndata: {\"a\":\"x@y.de\",\"password\":\"p\"}\n\ndata: mail x@y.de\r\n: x@y.de\n\ndata: [DONE]\n\n",
			"event: x\ndata: {\"a\":\"[redacted:email]\",\"password\":\"[redacted:field]\"}\n\ndata: mail [redacted:email]\r\n: [redacted:email]\n\ndata: [DONE]\n\n"},
		{"events without spaces, line ends and data", "text/event-stream", "data:{\"password\":1}\ndata:\ndata", "data:{\"password\":\"[redacted:field]\"}\ndata:\ndata"},
		{"events after a blank line", "text/event-stream", "\nevent: a\ndata: {\"password\":1}\n", "\nevent: a\ndata: {\"password\":\"[redacted:field]\"}\n"},
		{"comments", "text/event-stream", ": {\"password\":1}\n", ": {\"password\":\"[redacted:field]\"}\n"},
		{"lines of JSON", "application/x-ndjson", "{\"password\":1}\n{\"a\":\"x@y.de\"}\n", "{\"password\":\"[redacted:field]\"}\n{\"a\":\"[redacted:email]\"}\n"},
		{"a form", "application/x-www-form-urlencoded", "mail=x%40y.de&password=a%20b&z=1&flag", "mail=%5Bredacted%3Aemail%5D&password=%5Bredacted%3Afield%5D&z=1&flag"},
		{"a form with an escaped name", "application/x-www-form-urlencoded", "p%61ssword=a&z=1", "p%61ssword=%5Bredacted%3Afield%5D&z=1"},
		{"text", "text/plain", "mail x@y.de", "mail [redacted:email]"},
		{"a form that is none", "application/x-www-form-urlencoded", "z=%7e+x&mail=%zzx@y.de", "z=%7e+x&mail=[redacted:email]"},
		{"text of white space", "text/plain", " \n", " \n"},
		{"JSON strings and arrays that are not called so", "text/plain", " \n[\"x\\u0040y.de\"]", " \n[\"[redacted:email]\"]"},
		{"a JSON string that is not called so", "text/plain", `"x\u0040y.de"`, `"[redacted:email]"`},
		{"JSON that is not called so", "", `{"password":1}`, `{"password":"[redacted:field]"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.Body(tt.media, []byte(tt.body)); string(got) != tt.want {
				t.Errorf("Body = %s\nwant   %s", got, tt.want)
			}
		})
	}
}

func TestRulesThatCannotBeApplied(t *testing.T) {
	for want, r := range map[string]redact.Rules{
		"patterns[1]: ":                    {Patterns: []string{"email", "name"}},
		"custom[0].name: ":                 {Custom: []redact.Custom{{Name: "a b", Pattern: "x"}}},
		"custom[0].pattern: ":              {Custom: []redact.Custom{{Name: "a", Pattern: "("}}},
		"custom[1].pattern: the pattern m": {Custom: []redact.Custom{{Name: "a", Pattern: "x"}, {Name: "b", Pattern: "x*"}}},
		"fields[0]: ":                      {Fields: []string{"a..b"}},
		"fields[1]: ":                      {Fields: []string{"a", "*"}},
	} {
		if _, err := redact.New(r); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New(%+v) = %v, want %q", r, err, want)
		}
	}
	for what, r := range map[string]redact.Rules{
		"a pattern of 1001 bytes": {Custom: []redact.Custom{{Name: "a", Pattern: strings.Repeat("x", 1001)}}},
		"51 patterns":             {Custom: slices.Repeat([]redact.Custom{{Name: "a", Pattern: "x"}}, 51)},
		"101 fields":              {Fields: slices.Repeat([]string{"a"}, 101)},
		"a field of 201 bytes":    {Fields: []string{strings.Repeat("x", 201)}},
		"a path of 11 names":      {Fields: []string{"a" + strings.Repeat(".a", 10)}},
	} {
		if _, err := redact.New(r); err == nil {
			t.Errorf("%s are taken", what)
		}
	}
}

func TestRulesUpToTheirBoundsAreApplied(t *testing.T) {
	email := []string{"email"}
	for what, r := range map[string]redact.Rules{
		"a pattern of 1000 bytes":            {Custom: []redact.Custom{{Name: "a", Pattern: strings.Repeat("x", 1000)}}},
		"50 patterns":                        {Custom: slices.Repeat([]redact.Custom{{Name: "a", Pattern: "x"}}, 50)},
		"100 fields":                         {Fields: slices.Repeat([]string{"a"}, 100)},
		"a field of 200 bytes":               {Fields: []string{strings.Repeat("x", 200)}},
		"a path of 10 names":                 {Fields: []string{"a" + strings.Repeat(".a", 9)}},
		"a pattern and a field":              {Patterns: email, Fields: []string{"a"}},
		"a pattern and a path":               {Patterns: email, Fields: []string{"a.b"}},
		"a field and a path":                 {Fields: []string{"a", "a.b"}},
		"a pattern, a field and two paths":   {Patterns: email, Fields: []string{"a", "a.b", "a.c"}},
		"a path that begins with any member": {Fields: []string{"*.a"}},
	} {
		if out, err := redact.New(r); out == nil || err != nil {
			t.Errorf("%s: New = %v, %v, want a redactor", what, out, err)
		}
	}
}

func TestNothingToTakeOutChangesNothing(t *testing.T) {
	none, err := redact.New(redact.Rules{})
	if none != nil || err != nil {
		t.Fatalf("New of no rules = %v, %v", none, err)
	}
	body := []byte(`{"a":"x@y.de"}`)
	if got := none.Body("application/json", body); !bytes.Equal(got, body) || &got[0] == &body[0] {
		t.Errorf("Body = %s, want a copy", got)
	}
	if got := none.Text("x@y.de"); got != "x@y.de" {
		t.Errorf("Text = %q", got)
	}
}

// value returns some JSON, and what is left of it: every e-mail address and
// denied field replaced.
func value(r *rand.Rand, depth int) (in, want any) {
	switch n := r.IntN(8); {
	case n == 0 && depth > 0:
		a, b := []any{}, []any{}
		for range r.IntN(4) {
			x, y := value(r, depth-1)
			a, b = append(a, x), append(b, y)
		}
		return a, b
	case n <= 2 && depth > 0:
		a, b := map[string]any{}, map[string]any{}
		for i := range r.IntN(4) {
			x, y := value(r, depth-1)
			name := fmt.Sprintf("n%d\n\"", i)
			if r.IntN(4) == 0 {
				name, y = "password", any("[redacted:field]")
			}
			a[name], b[name] = x, y
		}
		return a, b
	case n == 3:
		return float64(r.IntN(1000)) / 8, nil
	case n == 4:
		return true, true
	}
	before, after := noise(r), noise(r)
	return before + " x@y.de " + after, before + " [redacted:email] " + after
}

func noise(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString([]string{"a", "\"", "\\", "\n", "\x01", "é", "😀", "{", "]", ":", ",", "data:", "\u2028", "<"}[r.IntN(14)])
	}
	return b.String()
}

func TestJSONStaysJSONAndLosesNothingElse(t *testing.T) {
	digits := mustNew(t, redact.Rules{Patterns: []string{"credit_card"}})
	if got, want := string(digits.Body("application/json", []byte(`{"n":4111111111111111,"m":7}`))), `{"n":"[redacted:credit_card]","m":7}`; got != want {
		t.Errorf("Body = %s, want %s", got, want)
	}
	red := mustNew(t, redact.Rules{Patterns: []string{"email"}, Fields: []string{"password"}})
	// What has no finding keeps its escapes, spaces and numbers, byte for byte.
	for in, want := range map[string]string{
		"{\"\\u0061\": [\"\\/\\u00e9\\ud83d\\ude00\", 1.50e+3 ,-0],\n\"b\":\"a@b.org\"}": "{\"\\u0061\": [\"\\/\\u00e9\\ud83d\\ude00\", 1.50e+3 ,-0],\n\"b\":\"[redacted:email]\"}",
		"{\"password\":[\"]\",{\"a\":[1]}],\"a\":\"\\u002F\"}":                           "{\"password\":\"[redacted:field]\",\"a\":\"\\u002F\"}",
	} {
		if got := string(red.Body("application/json", []byte(in))); got != want {
			t.Errorf("Body(%s)\n = %s\nwant %s", in, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		in, want := value(r, 4)
		if want == nil {
			want = in
		}
		body, _ := json.Marshal(in)
		if r.IntN(2) == 0 {
			body, _ = json.MarshalIndent(in, "", "\t")
		}
		var got any
		if err := json.Unmarshal(red.Body("application/json", body), &got); err != nil {
			t.Fatalf("Body(%s) = %s: %v", body, red.Body("application/json", body), err)
		}
		plain, _ := json.Marshal(want)
		json.Unmarshal(plain, &want)
		if !reflect.DeepEqual(fix(got), fix(want)) {
			t.Fatalf("Body(%s)\n = %v\nwant %v", body, got, want)
		}
	}
}

// fix takes away what value leaves open: numbers stand for themselves.
func fix(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = fix(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = fix(v[k])
		}
	case float64, nil:
		return "number"
	}
	return v
}

var all = redact.Rules{
	Patterns: redact.Patterns(), Custom: []redact.Custom{{Name: "word", Pattern: `\bT-[0-9]{3,}\b`}}, Fields: []string{"password", "a.*.b"},
}

// Hostile texts are those on which a finder could begin again and again.
func TestRedactionTakesTimeInLineWithTheLength(t *testing.T) {
	r := mustNew(t, all)
	for _, part := range []string{
		"@", "a@", "a@b.", "1", "1-", "+1 ", "(1", "0123 ", "4111 ", "4-", "DE89", "DE89 ", "A1", "1.", "a:", "::", ":1", "eyJ-", "sk-", "-sk-", "Bearer ", "ey.",
		"-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END ", "[", "{\"a\":", "\"", "\\", "\"\\u", ",", "data: \n", "T-1", "%40&", "=",
	} {
		for _, media := range []string{"application/json", "text/event-stream", "text/plain", "application/x-www-form-urlencoded"} {
			body := []byte(strings.Repeat(part, (1<<18)/len(part)))
			began := time.Now()
			r.Body(media, body)
			if took := time.Since(began); took > 10*time.Second { // one that is not linear takes far longer
				t.Fatalf("%d bytes of %q as %s took %v", len(body), part, media, took)
			}
		}
	}
}

func FuzzBody(f *testing.F) {
	f.Add("application/json", []byte(`{"a":[{"b":"x@y.de","password":{"c":"\u0040"}}],"n":4111111111111111}`))
	f.Add("text/event-stream", []byte("event: x\r\ndata: {\"a\":\"+49 171 1234567\"}\n\n: c\n"))
	f.Add("application/x-www-form-urlencoded", []byte("a=%40&password=x&=&%"))
	f.Add("text/plain", []byte("DE89 3704 0044 0532 0130 00 2001:db8::8a2e:370:7334 -----BEGIN PRIVATE KEY-----"))
	r := mustNew(f, all)
	f.Fuzz(func(t *testing.T, media string, body []byte) {
		before := bytes.Clone(body)
		got := r.Body(media, body)
		if !bytes.Equal(body, before) {
			t.Fatalf("Body changed its argument: %q", before)
		}
		if media == "application/json" && json.Valid(body) && !json.Valid(got) {
			t.Fatalf("Body(%q) = %q, which is no JSON", body, got)
		}
		if media == "text/event-stream" && strings.Count(string(got), "\n") != strings.Count(string(body), "\n") {
			t.Fatalf("Body(%q) = %q, which has other lines", body, got)
		}
		if again := r.Body(media, got); media == "text/plain" && len(again) > 2*len(got)+64 {
			t.Fatalf("Body of %q = %q", got, again)
		}
	})
}

func BenchmarkBody(b *testing.B) {
	r := mustNew(b, all)
	line := `{"role":"user","content":"Write to Jo Doe, jo@example.org, +49 171 1234567, about the report of 2026-11-21 and its 42 pages.\nThanks a lot, and see https://example.org/x?y=1 for more."},`
	body := []byte(`{"messages":[` + strings.Repeat(line, (128<<10)/len(line)) + `{}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r.Body("application/json", body)
	}
}
