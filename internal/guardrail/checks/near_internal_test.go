package checks

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Searching near keywords finds what searching all of the text finds, wherever the
// keywords, their neighbours and the ends of the parts are.
func TestSearchNearKeywordsFindsWhatTheCompletePatternFinds(t *testing.T) {
	vocabulary := strings.Split("Mr|Mrs.|Dr. |Dr|my NAME is |Ich heiße |me LLAMO |mi chiamo |Ann|Lee|van |Ångström|O’Neil|221|12|5|Baker|Street|St|Square|Way|Start|in der Linden|straße |weg |platz 7|bis |rue |de la |Paix|avenue |, |. |\n| | |x|é|/|postgres://user:|://|pass1@host|amqp://u:secret@h|password|Token|api_key|secret|=|: |\"|"+
		strings.Repeat("filler ", 90)+"|"+strings.Repeat("long", 150), "|")
	random := rand.New(rand.NewPCG(3, 5))
	matches, complete := map[string]int{}, map[string]*regexp.Regexp{}
	for _, f := range slices.Concat(personal, secrets) {
		if f.pattern != "" {
			complete[f.category] = regexp.MustCompile(f.pattern)
		}
	}
	compare := func(text string) {
		t.Helper()
		for _, f := range slices.Concat(personal, secrets) {
			if complete[f.category] == nil {
				continue
			}
			var want, got []string
			for _, at := range complete[f.category].FindAllStringSubmatchIndex(text, -1) {
				want = append(want, fmt.Sprint(at[2:4]))
			}
			f.find(text, func(from, to int) { got = append(got, fmt.Sprint([]int{from, to})) })
			if !slices.Equal(got, want) {
				t.Fatalf("%s finds %q, the pattern %q in %q", f.category, got, want, text)
			}
			matches[f.category] += len(want)
		}
	}
	for range 3_000 {
		var b strings.Builder
		for range 5 + random.IntN(40) {
			b.WriteString(vocabulary[random.IntN(len(vocabulary))])
			if random.IntN(2) == 0 {
				b.WriteByte(' ')
			}
		}
		compare(b.String())
	}
	long := func(letters int) string { return "\U00010400" + strings.Repeat("\U00010428", letters-1) } // of four bytes each
	for _, longest := range []string{
		"mein name ist " + long(31) + strings.Repeat(" von "+long(31), 3),
		"12345A N. " + strings.Repeat("A"+strings.Repeat("b", 30)+" ", 4) + "Boulevard.", long(41) + "straße 1234 b", "1234 ter, boulevard de la " + long(41),
		"12 Baker Square", `access_key"    :=    "` + strings.Repeat("\U00010428", 200), strings.Repeat("a", 21) + "://" + long(64) + ":" + long(200) + "@h",
	} {
		for before := 0; before < 2600; before += 37 {
			compare(strings.Repeat(". ", before) + longest + strings.Repeat(" .", 2000))
		}
	}
	for _, category := range []string{"LOCATION_ADDRESS", "NAME", "PASSWORD", "CONNECTION_STRING"} {
		if matches[category] < 50 {
			t.Errorf("%d matches of %s, want at least 50", matches[category], category)
		}
	}
}
