package reqlog_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

func TestAnEntryIsWrittenWithEveryName(t *testing.T) {
	id, err := reqlog.ParseID("0190a5a5-1234-7000-8000-0000000000ff")
	if err != nil {
		t.Fatal(err)
	}
	e := &reqlog.Entry{
		ID: id, Time: time.Date(2026, 5, 1, 14, 0, 0, 7_900_000, time.FixedZone("", 7200)),
		Trace: reqlog.Trace{TraceID: "t"}, Sender: reqlog.Sender{Organisation: "acme", Workspace: "w", KeyID: "k", KeyName: "ci"},
		Input:  reqlog.Input{Method: "POST", Path: "/v1/chat/completions", Operation: "chat", Stream: true, Model: "m", Config: "c", Prompt: reqlog.Prompt{ID: "p", Slug: "pp-a", Version: 3}, RequestBytes: 12, Metadata: map[string]string{"b": "2", "a": "1"}},
		Origin: reqlog.Origin{Provider: "openai", CacheStatus: "MISS"}, Result: reqlog.Result{Status: 502, ErrorSource: "provider", ErrorCode: "upstream_failed", ErrorMessage: "a \"b\"\n\x01\xff", Usage: llm.Usage{Input: 10, CachedInput: 5, Output: 3, Reasoning: 4, Known: true}},
		Steps: reqlog.Steps{Attempts: []reqlog.Attempt{{Target: "config", Provider: "openai", Error: "reset", Start: time.Millisecond, Took: 1500 * time.Microsecond}}, Decisions: []reqlog.Decision{{Path: "config", Text: "drawn"}}, Params: []string{"seed;dropped"}, Checks: []reqlog.CheckUse{{Event: "before", Target: "config", Hook: "g", Version: "v", Check: "default.contains", Verdict: reqlog.CheckFailed,
			Denied: true, Transformed: true, Shadow: true, Took: 3 * time.Millisecond}}, Unchecked: []string{"image"}},
		Charge:    reqlog.Charge{Cost: 12_000_450, Priced: true, Price: "openai/m", Saved: reqlog.Saved{Response: 34_000_000, Prompt: -5_000_000}},
		Durations: reqlog.Durations{Total: 2500 * time.Microsecond, Overhead: 45 * time.Microsecond},
		Level:     reqlog.LevelFull,
	}
	want := `{"id":"0190a5a5-1234-7000-8000-0000000000ff","created_at":"2026-05-01T12:00:00.007Z",` +
		`"trace_id":"t","span_id":null,"parent_span_id":null,"span_name":null,"organisation":"acme","workspace":"w","api_key":{"id":"k","name":"ci"},` +
		`"method":"POST","path":"/v1/chat/completions","operation":"chat","stream":true,` +
		`"provider":"openai","provider_slug":null,"model":"m","upstream_model":null,"response_model":null,"option_index":null,"target_name":null,"cache_status":"MISS","config":"c","config_version":null,"prompt":{"id":"p","slug":"pp-a","version":3},` +
		`"status":502,"outcome":"error","error":{"source":"provider","code":"upstream_failed","message":"a \"b\"\n\u0001` + "\uFFFD" + `"},` +
		`"attempts":[{"target":"config","provider":"openai","slug":null,"status":null,"error":"reset","start_ms":1,"took_ms":1.5}],` +
		`"decisions":[{"path":"config","text":"drawn"}],"params":["seed;dropped"],"limits":[],` +
		`"checks":[{"event":"before","target":"config","hook":"g","version":"v","check":"default.contains","verdict":"failed","denied":true,"transformed":true,"async":false,"shadow":true,"took_ms":3}],"unchecked":["image"],` +
		`"usage":{"prompt_tokens":15,"completion_tokens":7,"total_tokens":22,"cached_tokens":5,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0,"reasoning_tokens":4,"input_audio_tokens":0,"output_audio_tokens":0},` +
		`"cost":1.200045,"cost_nano_usd":12000450,"price":"openai/m","usage_estimated":false,"cost_estimated":false,"saved_cost":{"response_cache":3.4,"prompt_cache":-0.5,"response_cache_nano_usd":34000000,"prompt_cache_nano_usd":-5000000},` +
		`"finish_reason":null,"timing":{"total_ms":2.5,"upstream_ms":0,"first_token_ms":null,"overhead_us":45},` +
		`"request_bytes":12,"response_bytes":0,"metadata":{"a":"1","b":"2"},"user_agent":null,"logging":"full"}`
	if diff := cmp.Diff(want, string(e.AppendJSON(nil))); diff != "" {
		t.Errorf("AppendJSON() differs (-want +got):\n%s", diff)
	}
}

func TestAnEmptyEntryIsNullWhereNothingIsKnown(t *testing.T) {
	var got map[string]any
	if err := json.Unmarshal(new(reqlog.Entry).AppendJSON(nil), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"api_key", "error", "usage", "cost", "price", "model", "prompt"} {
		if v, ok := got[name]; !ok || v != nil {
			t.Errorf("AppendJSON(): %s = %v, %t; want null, true", name, v, ok)
		}
	}
}

func TestACostIsWrittenInCentsToTheNanoDollar(t *testing.T) {
	for _, tt := range []struct {
		cost catalog.NanoDollars
		want string
	}{
		{0, "0"}, {1, "0.0000001"}, {10_000_000, "1"}, {10_000_001, "1.0000001"}, {99_500_000, "9.95"},
		{math.MaxInt64, "922337203685.4775807"},
	} {
		var got struct{ Cost json.Number }
		if err := json.Unmarshal((&reqlog.Entry{Charge: reqlog.Charge{Cost: tt.cost, Priced: true}}).AppendJSON(nil), &got); err != nil || got.Cost.String() != tt.want {
			t.Errorf("the cost %d is written as %s, %v; want %s", tt.cost, got.Cost, err, tt.want)
		}
	}
}

func TestAnyTextIsValidJSONThatReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		e := reqlog.Entry{Input: reqlog.Input{Metadata: map[string]string{text: text}}}
		var got struct{ Metadata map[string]string }
		if err := json.Unmarshal(e.AppendJSON(nil), &got); err != nil {
			t.Fatalf("AppendJSON() with %q: %v", text, err)
		}
		clean := string([]rune(text)) // each wrong byte becomes one U+FFFD
		if diff := cmp.Diff(map[string]string{clean: clean}, got.Metadata); diff != "" {
			t.Errorf("AppendJSON() with %q (-want +got):\n%s", text, diff)
		}
	})
}
