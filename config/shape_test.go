package config_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/config"
)

func TestNearestIsTheFirstNameWithTheFewestOtherLetters(t *testing.T) {
	long := strings.Repeat("x", 63)
	for _, tt := range []struct {
		name, known, want string
	}{
		{"provder", "name provider weight", "provider"}, // a letter is missing
		{"provideer", "name provider weight", "provider"},
		{"provyder", "name provider weight", "provider"},
		{"APIKEY", "name api_key", "api_key"},
		{"colour", "name provider weight", ""},
		{"", "name", ""},

		{"a", "A", "A"},
		{"a", "b", ""}, // one of one letter
		{"ab", "ax", "ax"},
		{"ab", "xy", ""},
		{"mdoe", "mode", ""}, // two of four letters
		{"cahce", "cache", "cache"},
		{"cxxhe", "cache", "cache"},
		{"cxxxe", "cache", ""},
		{"prxvxxer", "provider", "provider"}, // three of eight letters
		{"prxxxxer", "provider", ""},
		{"xxxxovider", "provider", ""},
		{"xxprovider", "provider", "provider"},
		{"oxerridx_parxms", "override_params", "override_params"},
		{"oxexridx_parxms", "override_params", ""}, // never four
		{"provider", "provider_id", "provider_id"},
		{"provider_id", "provider", "provider"},
		{"provider", "provider_ids", ""},

		{"rat", "cat bat", "cat"},
		{"retri", "retries retry", "retry"},
		{"retrie", "retry retries", "retries"},
		{long + "y", long + "z", long + "z"},
		{long + "yy", long + "yz", ""},
	} {
		if got := config.Nearest(tt.name, strings.Fields(tt.known)); got != tt.want {
			t.Errorf("Nearest(%q, %q) = %q, want %q", tt.name, tt.known, got, tt.want)
		}
	}
}

func TestTwentyNamesAreGuessed(t *testing.T) {
	faults := faultsOf(t, leaf(repeat(25, func(i int) string { return fmt.Sprintf(`"provide%c":0`, 'A'+i) })))
	for i, f := range faults {
		if guessed := strings.Contains(f.Message, `did you mean "provider"`); guessed != (i < 20) {
			t.Errorf("fault %d is %q, want a guess for the first 20 alone", i, f)
		}
	}
}

func TestAHundredFaultsAreListed(t *testing.T) {
	unknown := func(n int) string {
		return leaf(repeat(n, func(i int) string { return fmt.Sprintf(`"%c%c_unknown_thing":0`, 'a'+i/26, 'a'+i%26) }))
	}
	for n, want := range map[int]int{99: 99, 100: 100, 101: 101, 102: 101} {
		faults := faultsOf(t, unknown(n))
		last := faults[len(faults)-1]
		if more := strings.Contains(last.Message, "has further faults"); len(faults) != want || more != (n > 100) {
			t.Errorf("%d faults are listed as %d, the last of which is %q; want a hundred and a note of more", n, len(faults), last)
		}
	}
}

// The names of a hostile text are cut where a fault shows them.
func TestAFaultShowsAtMost64BytesOfAName(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{strings.Repeat("x", 64), "$." + strings.Repeat("x", 64)},
		{strings.Repeat("x", 65), `$["` + strings.Repeat("x", 64) + `…"]`},
		{"a b", `$["a b"]`},
		{strings.Repeat(" ", 64), `$["` + strings.Repeat(" ", 64) + `"]`},
		{strings.Repeat(" ", 65), `$["` + strings.Repeat(" ", 64) + `…"]`},
		{strings.Repeat("x", 63) + "é", `$["` + strings.Repeat("x", 63) + `…"]`}, // not half a letter
	} {
		if faults := faultsOf(t, leaf(`"`+tt.name+`":0`)); faults[0].Path != tt.want {
			t.Errorf("the fault of a property %q is at %q, want %q", tt.name, faults[0].Path, tt.want)
		}
	}
}

func TestFreeContentIsNestedTwoHundredLevelsAtMost(t *testing.T) {
	// The config and override_params are the first two.
	deep := func(lists int) string {
		return leaf(`"override_params":{"a":` + strings.Repeat("[", lists) + strings.Repeat("]", lists) + `}`)
	}
	mustParse(t, deep(199))
	faults := faultsOf(t, deep(200))
	if want := "$.override_params.a" + strings.Repeat("[0]", 199); len(faults) != 1 || faults[0].Path != want || !strings.Contains(faults[0].Message, "deeper than 200") {
		t.Errorf("faults = %q, want one at %s", faults, want)
	}
}
