package checks

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
)

func TestLiteralsOfPatterns(t *testing.T) {
	for rule, want := range map[string]literal{
		`sk-[A-Za-z0-9]{20,}`:           {text: "sk-", fold: false},
		`(?i)password\s*[:=]`:           {text: "word", fold: true}, // s has a further form, ſ
		`(?i)project\s+(blue|heron)`:    {text: "project", fold: true},
		`[\w.]+@example\.(com|org)`:     {text: "@example.", fold: false},
		`\b\d{3}-\d{2}-\d{4}\b`:         {text: "-", fold: false},
		`(abc)+x`:                       {text: "abc", fold: false},
		`(?:abcd){2,3}xy`:               {text: "abcd", fold: false},
		`(?:abcd){0,3}xy`:               {text: "xy", fold: false},
		`(?:abcd)?xy`:                   {text: "xy", fold: false},
		`(?:abcd)*xy`:                   {text: "xy", fold: false},
		`(?i)élan`:                      {text: "lan", fold: true},
		`(?i)ſk`:                        {text: "", fold: true},
		"a\uFFFDbc":                     {text: "bc", fold: false},
		`one|two`:                       {},
		`[ab]c?`:                        {},
		`(?i:Ab)cd1`:                    {text: "cd1", fold: false},
		`^$`:                            {},
		`(?i)` + strings.Repeat("A", 9): {text: strings.Repeat("a", 9), fold: true},
	} {
		parsed, err := syntax.Parse(rule, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if got := requiredLiteral(parsed); got.text != want.text || got.text != "" && got.fold != want.fold {
			t.Errorf("%s: %+v, want %+v", rule, got, want)
		}
	}
}

func TestLiteralsAreFoundInAnyCase(t *testing.T) {
	for text, want := range map[string]bool{"": false, "wor": false, "word": true, "a WoRd": true, "wworD": true, "WORwOrx": false, "wwoword": true, "xord": false, "w": false, "WORD": true, "Word\xff": true, "wörd": false} {
		if got := literalOf([]rune("word"), true).in(text); got != want {
			t.Errorf("in %q: %t, want %t", text, got, want)
		}
	}
	if !literalOf([]rune("-1a"), true).in("x-1A") || literalOf([]rune("word"), false).in("WORD") || !(literal{}).in("") {
		t.Error("a literal that begins without a letter, one whose case counts, or none, is not looked for as such")
	}
}

func TestRareBytesAreLookedFor(t *testing.T) {
	for text, want := range map[string]byte{"project": 'j', "password": 'p', "tee": 't', "eta": 'a', "a-b": '-', "x": 'x'} {
		if got := text[rarest(text)]; got != want {
			t.Errorf("%q is looked for by its %q, want %q", text, got, want)
		}
	}
}

// A text without the literal must not match.
func FuzzLiteralsAreInEveryMatch(f *testing.F) {
	for _, rule := range []string{`(?i)kelvin`, `(?i)paſs`, `a(bc|d)+e?`, `(?s)a.c`, "\uFFFDab", `(?i)[a-f]oo\d`, `x{2,}y{0,1}`, `(?m)^ab$`, `(?i)straße`} {
		for _, text := range []string{"\u212Aelvin", "PASS", "abcbcd", "a\nc", "\xffab", "FOO1 Foo2", "xxxy", "\nab\n", "STRASSE straſse", ""} {
			f.Add(rule, text)
		}
	}
	f.Fuzz(func(t *testing.T, rule, text string) {
		re, err := regexp.Compile(rule)
		if err != nil || len(rule) > 200 || len(text) > 2000 {
			return
		}
		parsed, err := syntax.Parse(rule, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if l := requiredLiteral(parsed); re.MatchString(text) && !l.in(text) {
			t.Errorf("%q matches %q, which does not contain %+v", rule, text, l)
		}
	})
}
