package routing_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/testing/pipelinetest"
)

const rtPrefix = `,"sticky":{"enabled":true,"hash_fields":["prefix"]}`

// rtConversation is a body whose prefix is the system prompt and the first turn.
func rtConversation(t *testing.T, system, first string, later ...string) func(*pipelinetest.Request) {
	var body strings.Builder
	body.WriteString(fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":%q}`, system, first))
	for _, turn := range later {
		body.WriteString(fmt.Sprintf(`,{"role":"assistant","content":"ok"},{"role":"user","content":%q}`, turn))
	}
	return func(x *pipelinetest.Request) { pipelinetest.SetBody(t, x, body.String()+`]}`) }
}

var rtLong = strings.Repeat("long ", 1000)

func TestTheTurnsOfAConversationStayWithTheProvidersCache(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Weighted(rtPrefix, 1, 1, 1, 1)).Seed(5)
	homes := map[string]bool{}
	for i := range 20 {
		first := fmt.Sprint("question ", i)
		home := r.Send(rtConversation(t, rtLong, first)).Path
		homes[home] = true
		for _, later := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
			if got := r.Send(rtConversation(t, rtLong, first, later...)); got.Path != home {
				t.Errorf("a later turn went to %s, the first to %s", got.Path, home)
			}
		}
	}
	if len(homes) != 4 {
		t.Errorf("20 conversations share %d of 4 targets", len(homes))
	}
	short := map[string]bool{}
	for range 40 {
		short[r.Send(rtConversation(t, "short", "question")).Path] = true
	}
	if len(short) != 4 {
		t.Errorf("requests with a short prefix went to %d of 4 targets", len(short))
	}
}

// Every part of a prefix counts, in the spelling of every API.
func TestPrefixesAreFoundInEveryAPI(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Weighted(rtPrefix, 1, 1, 1, 1)).Seed(5)
	targets := func(body string) int {
		seen := map[string]bool{}
		for range 40 {
			seen[r.Send(func(x *pipelinetest.Request) { pipelinetest.SetBody(t, x, body) }).Path] = true
		}
		return len(seen)
	}
	for name, part := range map[string]string{
		"tools": `[%q]`, "toolConfig": `{"tools":[%q]}`, "functions": `[%q]`, "system": `%q`, "systemInstruction": `{"text":%q}`, "system_instruction": `{"text":%q}`, "instructions": `%q`,
		"messages": `[{"role":"system","content":%q},{"role":"user","content":"hi"}]`, "contents": `[{"role":"user","parts":[{"text":%q}]}]`, "input": `[{"role":"user","content":%q}]`,
	} {
		if n := targets(`{"model":"m",` + fmt.Sprintf("%q:"+part, name, rtLong) + `}`); n != 1 {
			t.Errorf("requests with a long %s went to %d targets, want 1", name, n)
		}
	}
	const quotes = 2
	for size, want := range map[int]int{4096: 1, 4095: 4} {
		if n := targets(`{"model":"m","instructions":"` + strings.Repeat("a", size-quotes) + `"}`); n != want {
			t.Errorf("requests with a prefix of %d bytes went to %d targets, want %d", size, n, want)
		}
	}
}

func TestEachTurnRenewsTheAssignmentOfAPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Weighted(rtPrefix, 1, 1))
		next := 0.0
		r.Random = func() float64 { next = 0.9 - next; return next } // 1 and 0 by turns
		turn := rtConversation(t, rtLong, "hi")
		for range 5 {
			if got := r.Send(turn); got.Path != "1" {
				t.Fatalf("went to %s, want 1", got.Path)
			}
			time.Sleep(5*time.Minute - time.Nanosecond)
		}
		time.Sleep(5 * time.Minute)
		if got := r.Send(turn); got.Path != "0" {
			t.Errorf("went to %s after the provider's cache has expired, want a new draw, which is 0", got.Path)
		}
	})
}
