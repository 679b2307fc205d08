package vendorbatch_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorbatch"
)

// mustRefuse returns the errors of a create that must send nothing.
func mustRefuse(t *testing.T, id string, in *vendorbatch.Input) *vendorbatch.Errors {
	t.Helper()
	fake := newFake(t, nil)
	_, err := mustVendor(t, id).Create(t.Context(), fake, in)
	list, ok := errors.AsType[*vendorbatch.Errors](err)
	if !ok {
		t.Fatalf("%s: Create() = %v, want errors of lines", id, err)
	}
	if len(fake.calls) > 0 {
		t.Errorf("%s: the requests %v were sent", id, fake.calls)
	}
	return list
}

func TestInvalidLinesAreListedWithLineAndMember(t *testing.T) {
	in := inputOf(chatURL, "claude-sonnet-4-5", text(`{"custom_id":"a","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"hi"}]}}
{"custom_id":"b","url":"/v1/responses","body":{"messages":[{"role":"user","content":"hi"}]}}
{"custom_id":"c","url":"/v1/chat/completions","body":{"messages":[]}}
{"custom_id":"d","url":"/v1/chat/completions","body":{"temperature":9,"messages":[{"role":"user","content":"hi"}]}}
`))
	list := mustRefuse(t, "anthropic", in)
	var got []string
	for _, e := range list.Data {
		got = append(got, fmt.Sprint(*e.Line, " ", *e.Param))
	}
	if want := "2 url, 3 body.messages, 4 body.temperature"; strings.Join(got, ", ") != want {
		t.Errorf("the errors are %v, want %s", got, want)
	}
	if list.Object != "list" {
		t.Errorf("the object is %q", list.Object)
	}
}

func TestErrorsOfLinesAreBounded(t *testing.T) {
	lines := text(strings.Repeat(`{"custom_id":"a","url":"/v1/other","body":{"messages":[]}}`+"\n", 300))
	if n := len(mustRefuse(t, "openai", inputOf(chatURL, "m", lines)).Data); n != 100 {
		t.Errorf("%d errors are listed, want 100", n)
	}
}

// repeated returns n lines with the same body, without holding them.
func repeated(n int, body string) func() iter.Seq2[vendorbatch.Line, error] {
	return func() iter.Seq2[vendorbatch.Line, error] {
		return func(yield func(vendorbatch.Line, error) bool) {
			for i := range n {
				if !yield(vendorbatch.Line{Number: i + 1, CustomID: fmt.Sprint("c", i), URL: chatURL, Body: []byte(body)}, nil) {
					return
				}
			}
		}
	}
}

const oneMessage = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

func TestLimitsOfVendorsAreNamed(t *testing.T) {
	large := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 10<<20) + `"}]}`
	for _, tt := range []struct {
		vendor, endpoint string
		lines            func() iter.Seq2[vendorbatch.Line, error]
		code             string
	}{
		{"openai", chatURL, repeated(50_001, oneMessage), "too_many_lines"},
		{"groq", chatURL, repeated(50_001, oneMessage), "too_many_lines"},
		{"anthropic", chatURL, repeated(100_001, oneMessage), "too_many_lines"},
		{"together-ai", chatURL, repeated(10, large), "file_too_large"},
		{"openai", chatURL, repeated(0, ""), "empty_file"},
	} {
		list := mustRefuse(t, tt.vendor, &vendorbatch.Input{Endpoint: tt.endpoint, Model: "m", Lines: tt.lines})
		if got := list.Data[0]; got.Code != tt.code || got.Line != nil {
			t.Errorf("%s: the first error is %+v, want %s", tt.vendor, got, tt.code)
		}
	}
	fake := newFake(t, map[string]string{"POST /files": `{"id":"f"}`, "POST /batches": openAIBatch})
	in := &vendorbatch.Input{Endpoint: chatURL, Model: "m", Lines: repeated(50_000, oneMessage)}
	if _, err := mustVendor(t, "openai").Create(t.Context(), fake, in); err != nil {
		t.Errorf("Create(as many lines as allowed) = %v", err)
	}
}

func TestOneModelIsNeededWhereTheVendorWantsOne(t *testing.T) {
	lines := text(`{"custom_id":"a","body":{"model":"m1","messages":[{"role":"user","content":"hi"}]}}
{"custom_id":"b","body":{"model":"m2","messages":[{"role":"user","content":"hi"}]}}
`)
	if e := mustRefuse(t, "openai", inputOf(chatURL, "", lines)).Data[0]; e.Code != "mixed_models" || *e.Line != 2 || *e.Param != "body.model" {
		t.Errorf("the error is %+v", e)
	}
	fake := newFake(t, map[string]string{"POST /messages/batches": anthropicEnded})
	if _, err := mustVendor(t, "anthropic").Create(t.Context(), fake, inputOf(chatURL, "", lines)); err != nil {
		t.Errorf("Create(several models, which are allowed) = %v", err)
	}
}

func TestUnsupportedEndpointsAndWindowsAreNamed(t *testing.T) {
	for _, tt := range []struct{ vendor, endpoint, window, param string }{
		{"groq", "/v1/embeddings", "24h", "endpoint"},
		{"anthropic", "/v1/completions", "24h", "endpoint"},
		{"openai", "/v1/audio/speech", "24h", "endpoint"},
		{"openai", chatURL, "immediate", "completion_window"},
	} {
		_, err := mustVendor(t, tt.vendor).Create(t.Context(), newFake(t, nil), &vendorbatch.Input{Endpoint: tt.endpoint, Window: tt.window,
			Lines: repeated(1, oneMessage)})
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Invalid || e.Param != tt.param {
			t.Errorf("%s, %s, %s: %v, want an error about %s", tt.vendor, tt.endpoint, tt.window, err, tt.param)
		}
	}
}

func TestOnlyProvidersWithABatchAPIAreVendors(t *testing.T) {
	for _, id := range []string{"deepseek", "ollama", "nothing"} {
		if _, ok := vendorbatch.For(id); ok {
			t.Errorf("For(%q) found a vendor", id)
		}
	}
	if v := mustVendor(t, "azure"); v.ID != "azure-openai" {
		t.Errorf("the alias azure is %s", v.ID)
	}
}
