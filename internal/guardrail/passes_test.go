package guardrail_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/internal/guardrail"
)

// spying returns a check that passes and notes the text that it sees.
func spying(seen *[]string, name string) guardrail.Compiled {
	return guardrail.Compiled{Run: func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		*seen = append(*seen, name+":"+textsOf(in.Parts))
		return guardrail.Verdict{Passed: true, Data: &guardrail.Data{Verdict: true, TextExcerpt: textsOf(in.Parts)}}, nil
	}}
}

// replacing returns a check that replaces text.
func replacing(old, with string) guardrail.Compiled {
	return guardrail.Compiled{Transforms: true, Run: func(_ context.Context, in *guardrail.Input) (v guardrail.Verdict, _ error) {
		for _, p := range in.Parts {
			v.Texts = append(v.Texts, strings.ReplaceAll(p.Text, old, with))
		}
		if slices.Equal(v.Texts, partTexts(in.Parts)) {
			v.Texts = nil
		}
		v.Passed = true
		return v, nil
	}}
}

func partTexts(parts []guardrail.Part) (list []string) {
	for _, p := range parts {
		list = append(list, p.Text)
	}
	return list
}

// rankedHook is a hook of one check; a denying one denies if the check fails.
func rankedHook(t *testing.T, rank guardrail.Rank, deny bool, c guardrail.Compiled) *guardrail.Hook {
	t.Helper()
	h := hookOf(t, guardrail.NewTable(plain("t.one", c)), fmt.Sprintf(`{"id":"of rank %d","deny":%t,"checks":[{"id":"t.one","parameters":{}}]}`, rank, deny))
	return h.At(rank)
}

func TestHooksOfLowerRanksSeeOnlyWhatHigherOnesLetPass(t *testing.T) {
	const org, workspace, config = guardrail.RankOrganisation, guardrail.RankWorkspace, guardrail.RankConfig
	for _, tt := range []struct {
		name   string
		hooks  func(seen *[]string) []*guardrail.Hook
		input  string
		seen   []string
		texts  string
		denied bool
	}{
		{"a denial is seen by nothing below", func(seen *[]string) []*guardrail.Hook {
			return []*guardrail.Hook{rankedHook(t, org, true, without("heron")), rankedHook(t, org, false, spying(seen, "org")), rankedHook(t, workspace, false, spying(seen, "workspace")), rankedHook(t, config, false, spying(seen, "config"))}
		}, "a heron", []string{"org:a heron"}, "a heron", true},
		{"a change is seen by all below", func(seen *[]string) []*guardrail.Hook {
			return []*guardrail.Hook{rankedHook(t, org, false, replacing("heron", "H")), rankedHook(t, workspace, false, spying(seen, "workspace")), rankedHook(t, config, false, spying(seen, "config"))}
		}, "a heron", []string{"workspace:a H", "config:a H"}, "a H", false},
		{"the order of the list does not matter", func(seen *[]string) []*guardrail.Hook {
			return []*guardrail.Hook{rankedHook(t, config, false, spying(seen, "config")), rankedHook(t, org, false, replacing("heron", "H"))}
		}, "a heron", []string{"config:a H"}, "a H", false},
		{"hooks that cannot act hide nothing", func(seen *[]string) []*guardrail.Hook {
			return []*guardrail.Hook{rankedHook(t, org, false, without("heron")), rankedHook(t, config, false, spying(seen, "config"))}
		}, "a heron", []string{"config:a heron"}, "a heron", false},
		{"a change from below is denied", func(seen *[]string) []*guardrail.Hook {
			return []*guardrail.Hook{rankedHook(t, org, true, without("heron")), rankedHook(t, config, false, replacing("Q", "heron"))}
		}, "a Q", nil, "a heron", true},
		{"a change from below is changed back", func(seen *[]string) []*guardrail.Hook {
			return []*guardrail.Hook{rankedHook(t, org, false, replacing("heron", "H")), rankedHook(t, config, false, replacing("Q", "heron"))}
		}, "a Q", nil, "a H", false},
		{"a change of the workspace is denied before the config sees it", func(seen *[]string) []*guardrail.Hook {
			return []*guardrail.Hook{rankedHook(t, org, true, without("heron")), rankedHook(t, workspace, false, replacing("Q", "heron")), rankedHook(t, config, false, spying(seen, "config"))}
		}, "a Q", nil, "a heron", true},
		{"a change of the config passes the workspace and then the organisation", func(seen *[]string) []*guardrail.Hook {
			return []*guardrail.Hook{rankedHook(t, org, true, without("heron")), rankedHook(t, workspace, false, replacing("egret", "heron")), rankedHook(t, config, false, replacing("Q", "egret"))}
		}, "a Q", nil, "a heron", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen []string
			out := guardrail.Run(t.Context(), tt.hooks(&seen), input(tt.input), nil)
			if diff := cmp.Diff(tt.seen, seen); diff != "" {
				t.Errorf("seen (-want +got):\n%s", diff)
			}
			if got := textsOf(out.Parts); got != tt.texts || out.Denied != tt.denied {
				t.Errorf("texts %q, denied %t; want %q, %t", got, out.Denied, tt.texts, tt.denied)
			}
		})
	}
}

// A hook that did not run has a result without a verdict of its own, and a hook that ran
// again has one result.
func TestSkippedAndRepeatedHooksHaveOneResult(t *testing.T) {
	hooks := []*guardrail.Hook{
		rankedHook(t, guardrail.RankOrganisation, true, without("heron")), rankedHook(t, guardrail.RankWorkspace, false, replacing("Q", "heron")), rankedHook(t, guardrail.RankConfig, true, verdict(false, nil)),
	}
	out := guardrail.Run(t.Context(), hooks, input("a Q"), nil)
	if len(out.Results) != 3 || !out.Results[0].Deny || !out.Results[1].Transformed || !out.Results[2].Skipped || !out.Results[2].Verdict || len(out.Results[2].Checks) > 0 {
		t.Errorf("results = %+v, want a denial, a change and a skipped hook", out.Results)
	}
}

// Hooks of the background get what passed, at their turn.
func TestBackgroundHooksSeeWhatTheirRankMaySee(t *testing.T) {
	apart := func(rank guardrail.Rank) *guardrail.Hook {
		h := *rankedHook(t, rank, true, verdict(false, nil))
		h.Async = true
		return &h
	}
	run := func(text string, hooks ...*guardrail.Hook) (seen []string) {
		guardrail.Run(t.Context(), hooks, input(text), func(hooks []*guardrail.Hook, in guardrail.Input) error {
			for _, h := range hooks {
				seen = append(seen, fmt.Sprint(h.Rank, " ", textsOf(in.Parts)))
			}
			return nil
		})
		return seen
	}
	org, config := apart(guardrail.RankOrganisation), apart(guardrail.RankConfig)
	redact := rankedHook(t, guardrail.RankOrganisation, false, replacing("heron", "H"))
	deny := rankedHook(t, guardrail.RankOrganisation, true, without("heron"))
	if diff := cmp.Diff([]string{"2 a heron", "0 a H"}, run("a heron", config, org, redact)); diff != "" {
		t.Errorf("after a change (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"2 a heron"}, run("a heron", config, org, deny)); diff != "" {
		t.Errorf("after a denial (-want +got):\n%s", diff)
	}
}

// A header that a check of a higher rank sets stays as it is.
func TestHeadersOfHigherRanksStay(t *testing.T) {
	setting := func(value string) guardrail.Compiled {
		return guardrail.Compiled{Transforms: true, Fields: []string{"x-user", "x-" + value}, Run: func(context.Context, *guardrail.Input) (guardrail.Verdict, error) {
			return guardrail.Verdict{Passed: true, Header: http.Header{"X_User": {value}, "X-" + value: {"set"}}}, nil
		}}
	}
	hooks := []*guardrail.Hook{rankedHook(t, guardrail.RankConfig, false, setting("config")), rankedHook(t, guardrail.RankOrganisation, false, setting("organisation"))}
	want := http.Header{"X_User": {"organisation"}, "X-config": {"set"}, "X-organisation": {"set"}}
	if diff := cmp.Diff(want, guardrail.Run(t.Context(), hooks, input("x"), nil).Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// Whatever hooks of lower ranks do, the organisation's check has read the final text,
// and what it withholds reaches none of them and no result.
func TestRandomHooksNeitherPassNorSeeWhatHigherRanksWithhold(t *testing.T) {
	const planted = "heron"
	rapid.Check(t, func(rt *rapid.T) {
		var seen []string
		acting := []guardrail.Compiled{without(planted), replacing(planted, "H")}[rapid.IntRange(0, 1).Draw(rt, "acting")]
		hooks := []*guardrail.Hook{rankedHook(t, guardrail.RankOrganisation, true, acting)}
		for range rapid.IntRange(0, 6).Draw(rt, "hooks") {
			rank := guardrail.Rank(rapid.IntRange(0, 1).Draw(rt, "rank"))
			c := [...]guardrail.Compiled{
				spying(&seen, "spy"), replacing("Q", planted), replacing("Q", "her"), replacing("her", "heron"), appending("on"), replacing("H", planted),
			}[rapid.IntRange(0, 5).Draw(rt, "check")]
			hooks = append(hooks, rankedHook(t, rank, rapid.Bool().Draw(rt, "deny"), c))
		}
		hooks = rapid.Permutation(hooks).Draw(rt, "order")
		out := guardrail.Run(t.Context(), hooks, input(rapid.StringOfN(rapid.SampledFrom([]rune("Qheron H")), 0, 12, -1).Draw(rt, "text"), "a "+planted), nil)
		if !out.Denied && strings.Contains(textsOf(out.Parts), planted) {
			rt.Errorf("the text %q passed", textsOf(out.Parts))
		}
		for _, text := range seen {
			if strings.Contains(text, planted) {
				rt.Errorf("a check of a lower rank saw %q", text)
			}
		}
		guardrail.HideTexts(out.Results, guardrail.RankConfig)
		if printed := guardrail.AppendResults(nil, out.Results, nil); strings.Contains(string(printed), planted) {
			rt.Errorf("results have the text: %s", printed)
		}
	})
}

// What a check could not read because of what was sent counts as denied, whatever failOnError
// says, if the hook denies or the check would have changed the text.
func TestTextThatWasNotReadIsDenied(t *testing.T) {
	broken, unread := errors.New("broken"), guardrail.NewIncomplete("too long")
	failing := func(err error, transforms bool) guardrail.Compiled {
		return guardrail.Compiled{Transforms: transforms, Run: func(context.Context, *guardrail.Input) (guardrail.Verdict, error) { return guardrail.Verdict{}, err }}
	}
	for _, tt := range []struct {
		name   string
		check  guardrail.Compiled
		change func(*guardrail.Hook)
		want   bool
	}{
		{"a denying hook", failing(unread, false), func(h *guardrail.Hook) { h.Deny = true }, true},
		{"a hook that denies a success", failing(unread, false), func(h *guardrail.Hook) { h.DenyPassed = true }, true},
		{"a check that changes text", failing(unread, true), func(*guardrail.Hook) {}, true},
		{"a hook that only reports", failing(unread, false), func(*guardrail.Hook) {}, false},
		{"an async hook", failing(unread, true), func(h *guardrail.Hook) { h.Deny, h.Async = true, true }, false},
		{"a hook in shadow mode", failing(unread, true), func(h *guardrail.Hook) { h.Deny, h.Shadow = true, true }, false},
		{"another error", failing(broken, true), func(h *guardrail.Hook) { h.Deny = true }, false},
		{"another error of a hook that fails closed", failing(broken, false), func(h *guardrail.Hook) { h.Deny, h.FailClosed = true, true }, true},
		{"another error of a change that fails closed", failing(broken, true), func(h *guardrail.Hook) { h.FailClosed = true }, true},
		{"an error of a report that fails closed", failing(broken, false), func(h *guardrail.Hook) { h.FailClosed = true }, false},
		{"a long text that takes too long", guardrail.Compiled{Run: func(ctx context.Context, _ *guardrail.Input) (guardrail.Verdict, error) {
			<-ctx.Done()
			return guardrail.Verdict{}, ctx.Err()
		}}, func(h *guardrail.Hook) { h.Deny = true }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := rankedHook(t, guardrail.RankOrganisation, false, tt.check)
				tt.change(h)
				out := guardrail.Run(t.Context(), []*guardrail.Hook{h}, input(strings.Repeat("long ", 1<<14)), nil)
				if out.Denied != tt.want {
					t.Errorf("denied %t, want %t: %+v", out.Denied, tt.want, out.Results[0].Checks[0])
				}
			})
		})
	}
}
