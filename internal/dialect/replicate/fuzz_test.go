package replicate_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/replicate"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// FuzzPrediction reads a prediction as a response and as the state of a job.
func FuzzPrediction(f *testing.F) {
	f.Add([]byte(`{"id":"p1","status":"succeeded","output":["a","b"],"metrics":{"input_token_count":1,"output_token_count":2},"urls":{"get":"https://replicate.example/p1","stream":"https://s.example"}}`))
	f.Add([]byte(`{"id":"p1","status":"failed","error":"no"}`))
	f.Add([]byte(`{"status":"starting","output":null,"urls":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, err := (replicate.Dialect{}).DecodeResponse(body, nil, dialect.RequestTarget{}); err == nil && (r.Usage.Input < 0 || r.Usage.Output < 0) {
			t.Errorf("DecodeResponse(%s): usage %+v", body, r.Usage)
		}
		if j, err := (replicate.Dialect{}).ReadJob(body); err != nil && j != (dialect.Job{}) {
			t.Errorf("Job(%s) = %+v and an error", body, j)
		}
	})
}

// FuzzStream reads the events of a prediction: neutral events come in order.
func FuzzStream(f *testing.F) {
	f.Add("output", []byte("a"), "done", []byte("{}"))
	f.Add("error", []byte(`{"detail":"x"}`), "output", []byte("\xff"))
	f.Add("logs", []byte(""), "done", []byte(`{"reason":"canceled"}`))
	f.Fuzz(func(t *testing.T, first string, data []byte, second string, more []byte) {
		d := replicate.Dialect{}.NewDecoder(nil, dialect.RequestTarget{})
		var events []llm.Event
		for _, e := range []sse.Event{{Type: []byte(first), Data: data}, {Type: []byte(second), Data: more}} {
			events = d.Decode(events, e)
		}
		if why := dialecttest.CheckEventOrder(d.End(events)); why != "" {
			t.Error(why)
		}
	})
}
