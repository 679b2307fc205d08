package checks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/guardrail/checks"
	"modelgate/internal/testing/waittest"
)

// TestLocalChecksOfLongTextsHaveATimeLimit sets a limit of a millisecond.
func TestLocalChecksOfLongTextsHaveATimeLimit(t *testing.T) {
	long := strings.Repeat("call nobody at 12 34 about Ann and the order of today ", 200_000)
	for _, closed := range []bool{true, false} {
		r, out := run(t, checks.Services{}, text(before, long), "default.pii", fmt.Sprintf(`{"timeout":1,"failOnError":%t}`, closed))
		if r.Error == nil || r.Error.Name != "TimeoutError" || out.Failed != closed {
			t.Errorf("failOnError %t: error %v, failed %t", closed, r.Error, out.Failed)
		}
	}
	if r, _ := run(t, checks.Services{}, text(before, "call nobody"), "default.pii", `{"timeout":1}`); r.Error != nil {
		t.Errorf("a short text: %v", r.Error)
	}
}

// TestLongTextsAreSearchedWhole puts data at and around the places where a search is
// divided.
func TestLongTextsAreSearchedWhole(t *testing.T) {
	const window = 128 << 10
	for _, at := range []int{0, window - 30, window - 10, window - 1, window, window + 1, 2*window - 8, 3*window + 100} {
		body := strings.Repeat("word ", 100_000)
		body = body[:at] + " ann.lee@example.org " + body[at:]
		r, out := run(t, checks.Services{}, text(before, body), "default.pii", `{"redact":true,"categories":["EMAIL_ADDRESS"]}`)
		if want := strings.Replace(body, "ann.lee@example.org", "{{EMAIL_ADDRESS_1}}", 1); r.Error != nil || out.Parts[0].Text != want {
			t.Errorf("at %d: not replaced once: %v", at, r.Data)
		}
		if r, _ := run(t, checks.Services{}, text(before, body), "default.regexMatch", `{"rule":"[a-z.]+@example\\.org","not":true}`); r.Verdict || r.Error != nil {
			t.Errorf("at %d: the pattern was not found: %v", at, r.Error)
		}
	}
}

// A replacement cannot be interrupted, so its steps are bounded: the processor time for a
// text of 4 MB is about four times that for a quarter of it, and for one of 10 MB a larger
// pattern is an error.
func TestReplacingInLongTextsIsLinearAndBounded(t *testing.T) {
	replace := func(size int) time.Duration {
		start := waittest.CPUTime(t)
		in := text(before, strings.Repeat("ab", size/2))
		if r, _ := run(t, checks.Services{}, in, "default.regexReplace", `{"rule":"(a|b|ab)*[cd]","timeout":60000}`); r.Error != nil {
			t.Fatalf("%d bytes: %v", size, r.Error)
		}
		return waittest.CPUTime(t) - start
	}
	const size = 4 << 20
	if quarter, all := min(replace(size/4), replace(size/4)), replace(size); all > 10*quarter || all > time.Minute {
		t.Errorf("4 MB take %s, a quarter of them %s", all, quarter)
	}
	in := text(before, strings.Repeat("ab", 5<<20))
	if r, _ := run(t, checks.Services{}, in, "default.regexReplace", `{"rule":"(a|b){30}[cd]","failOnError":true}`); r.Error == nil || !r.Incomplete || !strings.Contains(r.Error.Message, "can read") {
		t.Errorf("a pattern of more steps: %v", r.Error)
	}
}

// What is redacted is bounded like what an expression replaces: each of many short matches
// would become a longer placeholder.
func TestManyMatchesAreNotRedacted(t *testing.T) {
	many := text(before, strings.Repeat("1.1.1.1 ", 500_000))
	for redact, want := range map[string]bool{"true": true, "false": false} {
		r, _ := run(t, checks.Services{}, many, "default.pii", `{"categories":["IP_ADDRESS"],"redact":`+redact+`,"timeout":60000}`)
		if r.Incomplete != want || r.Verdict || want && !strings.Contains(r.Error.Message, "100000 matches") {
			t.Errorf("redact %s: passed %t, incomplete %t (%v), want incomplete %t", redact, r.Verdict, r.Incomplete, r.Error, want)
		}
	}
	few := text(before, strings.Repeat("1.1.1.1 ", 5_000))
	if r, out := run(t, checks.Services{}, few, "default.pii", `{"categories":["IP_ADDRESS"],"redact":true}`); r.Error != nil || strings.Contains(out.Parts[0].Text, "1.1.1.1") {
		t.Errorf("few matches are not redacted: %v", r.Error)
	}
}

func TestDeepJSONFailsItsChecks(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n) + strings.Repeat(`]}`, n) }
	for id, params := range map[string]string{"default.jsonKeys": `{"keys":["a"],"operator":"all"}`, "default.jsonSchema": `{"schema":{"type":"object"}}`} {
		// encoding/json itself rejects more than 10,000 levels.
		for depth, want := range map[int]bool{500_000: false, 4_000: false, 20: true} {
			if r, _ := run(t, checks.Services{}, text(after, nested(depth)), id, params); r.Verdict != want {
				t.Errorf("%s of JSON with %d levels: passed %t, want %t", id, 2*depth, r.Verdict, want)
			}
		}
	}
}

func TestNumbersOfAccountsAreNotPhoneNumbers(t *testing.T) {
	for _, tt := range []struct {
		text  string
		phone bool
	}{
		{"IBAN DE89 3704 0044 0532 0130 00", false},
		{"DE89370400440532013000", false},
		{"GB82 WEST 1234 5698 7654 32", false},
		{"FR14 2004 1010 0505 0001 3M02 606", false},
		{"NL91 ABNA 0417 1643 00 please", false},
		{"from DE89 3704 0044 0532 0130 00 to GB82 WEST 1234 5698 7654 32", false},
		{"card 4111 1111 1111 1111", false},
		{"card 5500-0000-0000-0004", false},
		{"call +49 30 1234567", true},
		{"call +49 30 1234567 or pay to DE89 3704 0044 0532 0130 00", true},
		{"pay to DE89 3704 0044 0532 0130 00 or call +49 30 1234567", true},
		{"(212) 555-0187", true},
		{"2024-01-02 and version 1.2.3", false},
	} {
		r, _ := run(t, checks.Services{}, text(before, tt.text), "default.pii", `{"categories":["PHONE_NUMBER"]}`)
		if r.Verdict == tt.phone {
			t.Errorf("%q: passed %t, want a phone number %t", tt.text, r.Verdict, tt.phone)
		}
	}
}
