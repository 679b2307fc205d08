package attempt

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

func mustScan(t *testing.T, body string) *jsonedit.Doc {
	t.Helper()
	doc := new(jsonedit.Doc)
	if err := doc.Scan([]byte(body)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return doc
}

// An API reads its own fields: those of others limit nothing.
func TestOnlyFieldsOfItsAPILimitTheOutput(t *testing.T) {
	fields := map[string][]api.Operation{
		`{"max_tokens":7}`:                                       {api.Chat, api.Completions, api.Messages, api.Invoke, api.CohereChat},
		`{"max_completion_tokens":7}`:                            {api.Chat},
		`{"max_output_tokens":7}`:                                {api.Responses},
		`{"generationConfig":{"maxOutputTokens":7}}`:             {api.Generate},
		`{"generation_config":{"max_output_tokens":"7"}}`:        {api.Generate},
		`{"inferenceConfig":{"maxTokens":7}}`:                    {api.Converse},
		`{"additionalModelRequestFields":{"max_tokens":7}}`:      nil,
		`{"options":{"num_predict":7}}`:                          {api.OllamaChat},
		`{"chatRequest":{"maxTokens":7}}`:                        {api.OracleChat},
		`{"input":{"max_tokens":7}}`:                             {api.Prediction},
		`{"Max_Tokens":7,"max_token\u0073 ":7}`:                  nil,
		`{"metadata":{"max_tokens":7},"reasoning":{"effort":7}}`: nil,
	}
	for body, readers := range fields {
		doc := mustScan(t, body)
		reads := map[api.Operation]bool{}
		for _, op := range readers {
			reads[op] = true
		}
		for op, f := range fieldsOf {
			if n, known := f.limit(doc); known != reads[op] || known && n != 7 {
				t.Errorf("%s as a request of %s limits its output to %d, %t; want that it does: %t", body, op, n, known, reads[op])
			}
		}
		if n, known := unknownFields.limit(doc); known {
			t.Errorf("%s as a request of an unknown API limits its output to %d", body, n)
		}
	}
}

// Readers disagree: of several limits the largest counts, and one that somebody may take
// for none is none.
func TestLimitsThatReadersDisagreeOnDoNotBind(t *testing.T) {
	for _, tt := range []struct {
		op    api.Operation
		body  string
		want  int64
		known bool
	}{
		{api.Chat, `{"max_tokens":5,"max_completion_tokens":9}`, 9, true},
		{api.Chat, `{"max_tokens":5,"Max_Tokens":9}`, 9, true},
		{api.Chat, `{"max_tokens":5,"max_to\u212aens":9}`, 9, true}, // the Kelvin sign
		{api.Chat, `{"max_tokens":5,"max_completion_tokens":null}`, 5, true},
		{api.Chat, `{"max_tokens":5,"max_completion_tokens":-1}`, 5, false},
		{api.Chat, `{"max_tokens":5,"max_completion_tokens":0}`, 5, false},
		{api.Chat, `{"max_tokens":5,"max_completion_tokens":"many"}`, 5, false},
		{api.Chat, `{"max_tokens":5,"max_completion_tokens":"9"}`, 9, true},
		{api.Chat, `{"max_tokens":5,"max_completion_tokens":9e0}`, 9, true},
		{api.Chat, `{"max_tokens":5,"max_completion_tokens":8.5}`, 9, true},
		{api.Chat, `{"max_tokens":{"x":5}}`, 0, false},
		{api.Chat, `{"max_tokens":1e300}`, maxOutputLimit, true},
		{api.Chat, `{"max_tokens":"1e300"}`, maxOutputLimit, true},
		{api.Chat, `{"max_tokens":"NaN"}`, 0, false},
		{api.Generate, `{"generationConfig":{"maxOutputTokens":5},"generation_config":{"maxOutputTokens":9}}`, 9, true},
		{api.Generate, `{"generationConfig":{"maxOutputTokens":5,"MaxOutputTokens":9}}`, 9, true},
		{api.Converse, `{"inferenceConfig":{"maxTokens":5},"additionalModelRequestFields":{"max_tokens":9}}`, 9, true},
		{api.OllamaChat, `{"options":{"num_predict":-1}}`, 0, false},
		{api.OllamaChat, `{"options":{"num_predict":5},"Options":{"num_predict":9}}`, 9, true},
		{api.Images, `{"max_tokens":5}`, 0, false},
	} {
		if n, known := fieldsOf[tt.op].limit(mustScan(t, tt.body)); n != tt.want || known != tt.known {
			t.Errorf("%s of %s: %d, known %t; want %d, %t", tt.body, tt.op, n, known, tt.want, tt.known)
		}
	}
	if n, known := fieldsOf[api.Chat].limit(nil); n != 0 || known {
		t.Errorf("without a body: %d, %t", n, known)
	}
}

func TestPathsThatPassThroughAreOfAKnownAPIOrOfNone(t *testing.T) {
	for path, want := range map[string]string{
		"/openai/deployments/d/chat/completions": `{"max_tokens":7}`, "/fim/completions": `{"max_tokens":7}`, "/v2/chat": `{"max_tokens":7}`,
		"/anthropic/v1/messages": `{"max_tokens":7}`, "/api/generate": `{"options":{"num_predict":7}}`, "/api/chat": `{"options":{"num_predict":7}}`,
		"/x/responses": `{"max_output_tokens":7}`, "/m:streamGenerateContent": `{"generationConfig":{"maxOutputTokens":7}}`,
	} {
		r := &exchange.Request{Received: exchange.Received{Path: path}}
		if n, known := outputFieldsOf(r, api.Proxy).limit(mustScan(t, want)); n != 7 || !known {
			t.Errorf("%s with %s: %d, %t; want 7", path, want, n, known)
		}
	}
	for _, path := range []string{"/threads/t/runs", "/chat/completions/", "/chat%2Fcompletions", "/answers", ""} {
		r := &exchange.Request{Received: exchange.Received{Path: path}}
		if n, known := outputFieldsOf(r, api.Proxy).limit(mustScan(t, `{"max_tokens":7,"max_output_tokens":9000,"options":{"num_predict":8}}`)); n != 9000 || known {
			t.Errorf("%s: %d, %t; want 9000, which does not limit the output", path, n, known)
		}
	}
}

func TestNumberOfResponsesIsThatOfTheAPI(t *testing.T) {
	for _, tt := range []struct {
		f    outputFields
		body string
		want int64
	}{
		{fieldsOf[api.Chat], `{"n":3}`, 3},
		{fieldsOf[api.Chat], `{"n":"3"}`, 3},
		{fieldsOf[api.Chat], `{"n":2e1}`, 20},
		{fieldsOf[api.Chat], `{"n":0,"best_of":5}`, 1},
		{fieldsOf[api.Chat], `{"n":1000000}`, maxResponses},
		{fieldsOf[api.Completions], `{"n":3,"best_of":5}`, 5},
		{fieldsOf[api.Generate], `{"generationConfig":{"candidateCount":4},"n":9}`, 4},
		{fieldsOf[api.Messages], `{"n":3}`, 1},
		{unknownFields, `{"generation_config":{"candidate_count":4},"n":9}`, 9},
	} {
		if got := tt.f.responses(mustScan(t, tt.body)); got != tt.want {
			t.Errorf("%s: %d responses, want %d", tt.body, got, tt.want)
		}
	}
}
