package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/config"
)

// sizeless leaves out what a config costs, which its spelling changes.
var sizeless = cmpopts.IgnoreUnexported(config.Config{})

// repeat returns n elements, written by f, joined by commas.
func repeat(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ",")
}

// patterns is a config whose condition has n patterns.
func patterns(n int, pattern string) string {
	return `{"strategy":{"mode":"conditional","default":"a","conditions":[{"query":{"$or":[` +
		repeat(n, func(int) string { return fmt.Sprintf(`{"metadata.a":{"$regex":%q}}`, pattern) }) +
		`]},"then":"a"}]},"targets":[{"name":"a","provider":"@a"}]}`
}

// treeOf returns a config of n targets with the root's members.
func treeOf(n int, root string) string {
	groups := (n + 49) / 50
	return `{` + root + `"strategy":{"mode":"fallback"},"targets":[` + repeat(groups, func(int) string {
		return `{"strategy":{"mode":"fallback"},"targets":[` + repeat(50, func(int) string { return `{"provider":"@a"}` }) + `]}`
	}) + `]}`
}

func members(n int) string {
	return `{` + repeat(n, func(i int) string { return fmt.Sprintf(`"a%d":0`, i) }) + `}`
}

func TestConfigThatCompilesToTooMuchIsRejected(t *testing.T) {
	for _, tt := range []struct {
		name, text, path, want string
	}{
		{"repetitions", patterns(40, ".{1000}"), "$.strategy.conditions[0].query.$or[19]", "20000 instructions"},
		{"optional repetitions", patterns(40, "a{0,1000}"), "$.strategy.conditions[0].query.$or[", "20000 instructions"},
		{"one pattern of many repetitions", patterns(1, strings.Repeat("[a-z]{1000}", 30)), "$.strategy.conditions[0].query.$or[0]", "20000 instructions"},
		{"nested repetitions", patterns(1, strings.Repeat("(?:.{30}){30}", 40)), "$.strategy.conditions[0].query.$or[0]", "20000 instructions"},
		{"large classes", patterns(300, strings.Repeat(`\pL`, 10)), "$.strategy.conditions[0].query.$or[", "20000 instructions"},
		{"long pattern", patterns(1, strings.Repeat("a", config.MaxPattern+1)), "$.strategy.conditions[0].query.$or[0]", "pattern of 4097 bytes; at most 4096"},
		{"targets", treeOf(3600, ""), "$", "8388608 bytes of memory"},
		{"parameters that many targets inherit", treeOf(1000, `"override_params":`+members(3000)+`,`), "$", "8388608 bytes of memory"},
		{"defaults that many targets inherit", treeOf(1000, `"default_params":`+members(3000)+`,`), "$", "8388608 bytes of memory"},
		{"headers that many targets forward", treeOf(1000, `"forward_headers":[`+repeat(3000, func(int) string { return `"a"` })+`],`), "$", "8388608 bytes of memory"},
		{"paths that many targets drop", treeOf(1000, `"drop_params":[`+repeat(3000, func(int) string { return `"a"` })+`],`), "$", "8388608 bytes of memory"},
		{"values", `{"provider":"@a","override_params":{"a":[` + repeat(100_000, func(int) string { return "0" }) + `]}}`, "$", "8388608 bytes of memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Parse([]byte(tt.text))
			all, ok := errors.AsType[*config.Errors](err)
			if !ok || !strings.HasPrefix(err.Error(), "AB01: ") || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(all.Faults[0].Path, tt.path) {
				t.Fatalf("Parse = %.300v, want AB01 at %s with %q", err, tt.path, tt.want)
			}
			if len(all.Faults) != 1 {
				t.Errorf("%d faults, want the limit once: %v", len(all.Faults), err)
			}
		})
	}
}

func TestConfigsOfOrdinarySizeAreAccepted(t *testing.T) {
	conditional := `{"strategy":{"mode":"conditional","default":"t0","conditions":[` +
		repeat(500, func(i int) string {
			return fmt.Sprintf(`{"query":{"params.model":{"$regex":"^(gpt|o)-%d.*$"}},"then":"t%d"}`, i, i)
		}) + `]},"targets":[` + repeat(500, func(i int) string { return fmt.Sprintf(`{"name":"t%d","provider":"@a"}`, i) }) + `]}`
	for name, text := range map[string]string{
		"conditional with 500 patterns": conditional,
		"1000 targets":                  treeOf(1000, ""),
		"parameters at many targets":    treeOf(1000, `"override_params":`+members(20)+`,`),
		"a pattern of 1000 repetitions": patterns(10, ".{1000}"),
	} {
		c, err := config.Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %.200v", name, err)
			continue
		}
		if c.Size() < len(text) || c.Size() > config.MaxSize {
			t.Errorf("%s: Size = %d of a text of %d bytes", name, c.Size(), len(text))
		}
	}
}

// The instructions of a pattern are counted before it is compiled. Two of a program
// belong to no part of the pattern: that which fails and that which matches.
func TestAPatternCountsForAtLeastTheInstructionsThatItCompilesTo(t *testing.T) {
	for _, pattern := range []string{
		"abc", "(a)(b)(c)(d)(e)(f)", "ab|cd|ef|gh|ij|kl", "(?:ab|cd|ef|gh){5}", "a{3,9}", "a{5,}", "(?:abc)?", "(?:abc)*", "(?:abc)+", `[a-f]{4}\pL`, "^(?:a.b|c.d)$", "((ab|cd)+|(ef|gh)*)+", "",
	} {
		tree, err := syntax.Parse("("+pattern+")", syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		q, err := config.ParseQuery(fmt.Appendf(nil, `{"metadata.a":{"$regex":%q}}`, pattern))
		if err != nil {
			t.Fatal(err)
		}
		var work config.Work // a step for each instruction, as the text is empty
		q.Match(func(string) (json.RawMessage, bool) { return json.RawMessage(`""`), true }, &work)
		if least := config.Work(len(program.Inst) - 2 - 2); work < least { // two are those of the group that is added
			t.Errorf("%q counts for %d instructions, but compiles to %d", pattern, work, least)
		}
	}
}

func TestAPatternHas4096BytesAtMost(t *testing.T) {
	mustParse(t, patterns(1, strings.Repeat("a", 4096)))
	faultsOf(t, patterns(1, strings.Repeat("a", 4097)))
}

// A target has a compiled form of everything that it inherits, which is at least
// a few words of memory for each element.
func TestInheritedSettingsCountForEachTarget(t *testing.T) {
	const items, targets, least = 20, 10, 64
	texts := "[" + repeat(items, func(i int) string { return fmt.Sprintf(`"a%d"`, i) }) + "]"
	hooks := "[" + repeat(items, func(i int) string { return fmt.Sprintf(`{"id":"a%d"}`, i) }) + "]"
	for name, value := range map[string]string{
		"override_params": members(items), "default_params": members(items), "drop_params": texts, "forward_headers": texts,
		"before_request_hooks": hooks, "after_request_hooks": hooks, "input_guardrails": texts, "output_guardrails": texts,
		"input_mutators": texts, "output_mutators": texts,
	} {
		t.Run(name, func(t *testing.T) {
			size := func(more string, n int) int {
				return mustParse(t, `{`+more+`"strategy":{"mode":"fallback"},"targets":[`+repeat(n, func(int) string { return `{"provider":"@a"}` })+`]}`).Size()
			}
			given := `"` + name + `":` + value + `,`
			one, all := size(given, 1)-size("", 1), size(given, targets)-size("", targets)
			if all-one < (targets-1)*items*least {
				t.Errorf("%d items of %s take %d bytes with one target and %d with %d, want at least %d more for each item of a target", items, name, one, all, targets, least)
			}
		})
	}
}

// Each level of targets makes the paths of those below longer by ".targets[0]".
func TestTheSizeOfATargetGrowsWithItsPath(t *testing.T) {
	size := func(levels int) int {
		text := `{"provider":"@a"}`
		for range levels {
			text = tree(`{"mode":"single"}`, text)
		}
		return mustParse(t, text).Size()
	}
	fourth, fifth := size(4)-size(3), size(5)-size(4)
	if least := len(".targets[0]"); fifth-fourth < least {
		t.Errorf("the fourth level takes %d bytes and the fifth %d, want at least %d more", fourth, fifth, least)
	}
}

func TestEveryPartOfATargetCountsForItsSize(t *testing.T) {
	plain := mustParse(t, leaf(`"name":"a"`)).Size()
	for name, more := range map[string]string{
		"options":     `"vendora_project":"p","vendora_organization":"o","vendora_beta":"b","cloud_a_region":"r","cloud_b_region":"r"`,
		"deployments": `"deployments":[` + repeat(5, func(i int) string { return fmt.Sprintf(`{"deployment_id":"d","alias":"a%d","api_version":"v"}`, i) }) + `]`,
		"targets":     `"strategy":{"mode":"single"},"targets":[` + repeat(5, func(int) string { return `{"provider":"@a"}` }) + `]`,
		"a query":     `"strategy":{"mode":"conditional","default":"b","conditions":[{"query":{"metadata.a":{"$in":[1,2,3,4,5]}},"then":"b"}]},"targets":[{"name":"b","provider":"@a"}]`,
	} {
		c := mustParse(t, leaf(`"name":"a",`+more))
		// The text itself is kept in pieces, so its parts take more than its bytes.
		if got, least := c.Size()-plain, len(more)+5*100; got < least {
			t.Errorf("five of %s take %d bytes, want at least %d", name, got, least)
		}
	}
	query := func(op string) int {
		return mustParse(t, strings.ReplaceAll(patterns(10, "a"), "$regex", op)).Size()
	}
	if got, least := query("$regex")-query("$contains"), 10*512; got < least {
		t.Errorf("ten patterns take %d bytes more than ten texts, want at least %d", got, least)
	}
	list := `[` + repeat(5, func(i int) string { return fmt.Sprintf(`{"deployment_id":"d","alias":"a%d","api_version":"v"}`, i) }) + `]`
	free := mustParse(t, leaf(`"override_params":{"deployments":`+list+`}`)).Size()
	if got, least := mustParse(t, leaf(`"deployments":`+list)).Size()-free, 5*64; got < least {
		t.Errorf("five deployments take %d bytes more than the same text in free content, want at least %d", got, least)
	}
}

// Patterns keep their meaning in the group that they are compiled in.
func TestPatternsKeepTheirMeaning(t *testing.T) {
	for _, tt := range []struct {
		pattern, value string
		want           bool
	}{
		{"^a|b$", "ax", true}, {"^a|b$", "xb", true}, {"^a|b$", "xax", false},
		{"(?i)abc", "xABCx", true}, {"^$", "", true}, {"^$", "a", false}, {"^a+$", "aaa", true}, {"", "x", true},
	} {
		q, err := config.ParseQuery(fmt.Appendf(nil, `{"metadata.a":{"$regex":%q}}`, tt.pattern))
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Match(func(string) (json.RawMessage, bool) { return fmt.Appendf(nil, "%q", tt.value), true }, new(config.Work)); got != tt.want {
			t.Errorf("%q matches %q: %t, want %t", tt.pattern, tt.value, got, tt.want)
		}
	}
	if _, err := config.ParseQuery([]byte(`{"metadata.a":{"$regex":"a)(b"}}`)); err == nil {
		t.Error("a pattern of unbalanced groups is accepted")
	}
}

func TestFaultsOfAHostileTextAreCutShort(t *testing.T) {
	_, err := config.Parse([]byte(`{` + repeat(20_000, func(i int) string { return fmt.Sprintf(`"x%d":0`, i) }) + `}`))
	if n := len(err.Error()); n > 32<<10 || !strings.Contains(err.Error(), "has further faults") {
		t.Errorf("the error has %d bytes, want it cut short: %.100v", n, err)
	}
}

// heap returns the bytes in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestSizeIsNotLessThanWhatAConfigTakes(t *testing.T) {
	for name, text := range map[string]string{
		"patterns":     patterns(15, ".{1000}"),
		"alternatives": patterns(10, "^(?:"+strings.ReplaceAll(repeat(300, func(i int) string { return fmt.Sprintf("%c%d", 'a'+i%26, i) }), ",", "|")+")"),
		"classes":      patterns(20, `\pL\pN`),
		"values":       `{"strategy":{"mode":"conditional","default":"a","conditions":[{"query":{"metadata.a":{"$in":[` + repeat(20_000, func(int) string { return "0" }) + `]}},"then":"a"}]},"targets":[{"name":"a","provider":"@a"}]}`,
		"targets":      treeOf(1000, ""),
	} {
		const n = 10
		kept := make([]*config.Config, n)
		before := heap()
		for i := range kept {
			c, err := config.Parse([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			kept[i] = c
		}
		took := (heap() - before) / n
		if size := kept[0].Size(); size < took {
			t.Errorf("%s: Size = %d, but it takes %d bytes", name, size, took)
		} else {
			t.Logf("%s: Size = %d, takes %d", name, size, took)
		}
		runtime.KeepAlive(kept)
	}
}

func TestMatchingStopsAtItsLimitOfWork(t *testing.T) {
	q, err := config.ParseQuery([]byte(`{"$or":[` + repeat(100, func(int) string { return `{"metadata.a":{"$regex":"(x+x+)+y"}}` }) + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		length   int
		exceeded bool
	}{{1000, false}, {4 << 20, true}} {
		tests, work := 0, new(config.Work)
		text := fmt.Appendf(nil, "%q", strings.Repeat("x", tt.length))
		q.Match(func(string) (json.RawMessage, bool) { tests++; return text, true }, work)
		if work.Exceeded() != tt.exceeded || (tests < 100) != tt.exceeded {
			t.Errorf("text of %d bytes: exceeded %t after %d tests, want %t", tt.length, work.Exceeded(), tests, tt.exceeded)
		}
	}
}
