package simulator_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// forEach runs a test in every protocol.
func forEach(t *testing.T, test func(t *testing.T, g *protocolCase, h *fixture)) {
	t.Helper()
	for _, g := range protocolCases {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			test(t, g, mustServe(t, simulator.Options{}))
		})
	}
}

// both asks for a response whole and streamed, and checks that they say the
// same.
func both(t *testing.T, g *protocolCase, h *fixture, model string, q question) parsed {
	t.Helper()
	one, two := g.readComplete(t, h, model, q), g.readStream(t, h, model, q)
	if !two.ended || two.broken > 0 || two.fault != "" {
		t.Errorf("the stream has no end or is broken: %+v", two)
	}
	frames := two.frames
	two.frames, two.ended, one.ended = 0, false, false
	if !reflect.DeepEqual(one, two) {
		t.Errorf("the body says %+v\nthe stream   %+v", one, two)
	}
	one.frames = frames
	return one
}

func TestEveryProtocolEchoesTheUser(t *testing.T) {
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		got := both(t, g, h, "sim-1", question{system: "Be brief.", user: "Hé, \"you\" 😀\n<b>"})
		if !strings.HasPrefix(got.text, "echo: Hé, \"you\" 😀\n<b>") || got.stop != g.stops[0] || got.completion != 64 || got.prompt == 0 {
			t.Errorf("heard %+v", got)
		}
	})
}

func TestEveryProtocolStopsAtTheLimit(t *testing.T) {
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		if got := both(t, g, h, "sim-1", question{user: "x", limit: 16}); len(got.text) != 64 || got.completion != 16 || got.stop != g.stops[1] {
			t.Errorf("heard %+v", got)
		}
	})
}

func TestEveryProtocolStopsAtAStopSequence(t *testing.T) {
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		if g.stops[2] == "" {
			return // responses has none
		}
		got := both(t, g, h, "sim-1", question{user: "one two three", stops: []string{"never", " two"}})
		if got.text != "echo: one" || got.stop != g.stops[2] {
			t.Errorf("heard %+v", got)
		}
	})
}

func TestEveryProtocolCallsTools(t *testing.T) {
	const arguments = `{"city":"Say it"}`
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		two := question{user: "Say it", tools: []string{"weather", "news"}}
		got := both(t, g, h, "sim-1", two)
		if len(got.calls) != 2 || got.calls[0].name != "weather" || got.calls[1].name != "news" || got.calls[1].arguments != arguments || got.stop != g.stops[3] {
			t.Errorf("two tools: %+v", got)
		}
		if got := both(t, g, h, "sim-1+calls=3+interleave", two); len(got.calls) != 3 || got.calls[2].name != "weather" || got.calls[0].arguments != arguments {
			t.Errorf("three calls: %+v", got)
		}
		if got := both(t, g, h, "sim-1+calls=1", two); len(got.calls) != 1 {
			t.Errorf("one call: %+v", got)
		}
		if g.name == "cohere" || g.name == "ollama" {
			return // no choice there
		}
		two.tool = "news"
		if got := both(t, g, h, "sim-1", two); len(got.calls) != 1 || got.calls[0].name != "news" {
			t.Errorf("a chosen tool: %+v", got)
		}
	})
}

func TestEveryProtocolThinks(t *testing.T) {
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		got := both(t, g, h, "sim-1+thinking=40", question{user: "x"})
		if len(got.thinking) != 160 || !strings.HasPrefix(got.text, "echo: x") || got.completion != 104 {
			t.Errorf("heard %+v", got)
		}
		if g.name == "chat" {
			return
		}
		got = both(t, g, h, "sim-1", question{user: "x", think: true})
		if len(got.thinking) != 64 || got.completion != 80 || g.signs != (got.sign != "") {
			t.Errorf("asked for in the request: %+v", got)
		}
	})
}

func TestEveryProtocolRefuses(t *testing.T) {
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		if got := both(t, g, h, "sim-1+refusal", simpleQuestion); got.refusal == "" || got.text != "" || got.stop != g.stops[4] {
			t.Errorf("heard %+v", got)
		}
	})
}

func TestEveryProtocolFitsASchema(t *testing.T) {
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		if g.name == "messages on vertex" || g.name == "messages on bedrock" {
			return
		}
		if got := both(t, g, h, "sim-1", question{user: "Say it", schema: true}); got.text != `{"city":"Say it"}` {
			t.Errorf("heard %+v", got)
		}
	})
}

func TestEveryProtocolCountsCachedTokens(t *testing.T) {
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		plain := both(t, g, h, "sim-1", simpleQuestion)
		got := both(t, g, h, "sim-1+cached=500+cache-write=30", simpleQuestion)
		want := 500
		if g.name == "ollama" {
			want = 0 // it does not tell
		}
		if got.cached != want || got.prompt != plain.prompt+530 {
			t.Errorf("cached %d, prompt %d after %d", got.cached, got.prompt, plain.prompt)
		}
		if err := h.sim.Wait(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		served := h.sim.Served()
		family, _, _ := strings.Cut(g.name, " ")
		if sum := served.Dialects[family]; sum.Requests != 4 || sum.Cached != 1000 || sum.Prompt != 2*plain.prompt+2*got.prompt || sum.Completion != 4*64 || len(served.Dialects) != 1 {
			t.Errorf("served %+v", served)
		}
	})
}

func TestEveryProtocolReports(t *testing.T) {
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		q := question{system: "Be brief.", user: "Say it", tools: []string{"weather"}, limit: 99}
		family, _, _ := strings.Cut(g.name, " ")
		for streamed, got := range map[bool]parsed{false: g.readComplete(t, h, "sim-1+report", q), true: g.readStream(t, h, "sim-1+report", q)} {
			var r simulator.Report
			if err := json.Unmarshal([]byte(got.text), &r); err != nil {
				t.Fatal(err)
			}
			want := simulator.Report{Dialect: family, Model: "sim-1+report", Members: r.Members, System: "Be brief.",
				Roles: []string{"user"}, Texts: []string{"Say it"}, Tools: []string{"weather"}, MaxTokens: 99, Stream: streamed}
			if !reflect.DeepEqual(r, want) || len(r.Members) == 0 {
				t.Errorf("report %+v\nwant   %+v", r, want)
			}
		}
	})
}

func TestGeminiReturnsAnImage(t *testing.T) {
	forEach(t, func(t *testing.T, g *protocolCase, h *fixture) {
		want := 0
		if strings.HasPrefix(g.name, "gemini") {
			want = 1
		}
		if got := both(t, g, h, "sim-1+image", simpleQuestion); got.images != want {
			t.Errorf("%d images, want %d", got.images, want)
		}
	})
}
