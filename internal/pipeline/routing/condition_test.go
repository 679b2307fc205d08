package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/testing/pipelinetest"
)

// rtCondition is a conditional node that goes to 1 when query holds, else to 0.
func rtCondition(query string) string {
	return `{"strategy":{"mode":"conditional","conditions":[{"query":` + query + `,"then":"yes"}],"default":"no"},
		"targets":[{"name":"no","provider":"@a"},{"name":"yes","provider":"@b"}]}`
}

func rtQuestion(x *pipelinetest.Request) {
	pipelinetest.Meta("plan", "pro", "count", "12", "a.dotted.key", "deep", "unit", "12ms", "empty", "")(x)
	x.Received.Header.Set("X-Tenant", "Acme")
	x.Received.Header.Add("X-Many", "one")
	x.Received.Header.Add("X-Many", "two")
	x.Received.Header.Set("Authorization", "Bearer secret")
	x.Received.Header.Set("X-Api-Key", "secret")
	x.Received.Header.Set("X-Gateway-Api-Key", "secret")
	x.Received.Header.Set("Cookie", "secret")
	x.Received.Query = "tier=gold&tier=silver&blank="
}

const rtAsked = `{"model":"m-1","temperature":0.5,"max_tokens":100,"stream":true,"user":null,"stop":["a","b"],
	"messages":[{"role":"user","content":"Hé\u006clo"}],"response_format":{"type":"json_object","deep":{"er":[{"x":7}]}}}`

// S-027, S-077
func TestEveryOperatorOnEveryField(t *testing.T) {
	for _, tt := range []struct {
		query string
		want  bool
	}{
		{`{"metadata.plan":"pro"}`, true},
		{`{"metadata.plan":"free"}`, false},
		{`{"metadata.plan":{"$eq":"pro"}}`, true},
		{`{"metadata.plan":{"$ne":"pro"}}`, false},
		{`{"metadata.plan":{"$ne":"free"}}`, true},
		{`{"metadata.plan":{"$in":["x","pro"]}}`, true},
		{`{"metadata.plan":{"$in":["x"]}}`, false},
		{`{"metadata.plan":{"$in":[]}}`, false},
		{`{"metadata.plan":{"$nin":["x"]}}`, true},
		{`{"metadata.plan":{"$nin":["pro"]}}`, false},
		{`{"metadata.count":12}`, false}, // metadata holds texts
		{`{"metadata.count":"12"}`, true},
		{`{"metadata.count":{"$gt":11.5}}`, true},
		{`{"metadata.count":{"$gt":12}}`, false},
		{`{"metadata.count":{"$gte":12}}`, true},
		{`{"metadata.count":{"$lt":12}}`, false},
		{`{"metadata.count":{"$lte":12}}`, true},
		{`{"metadata.unit":{"$gt":11}}`, true},
		{`{"metadata.plan":{"$gt":0}}`, false},
		{`{"metadata.plan":{"$regex":"^p.o$"}}`, true},
		{`{"metadata.plan":{"$regex":"^x"}}`, false},
		{`{"metadata.plan":{"$contains":"r"}}`, true},
		{`{"metadata.plan":{"$exists":true}}`, true},
		{`{"metadata.empty":{"$exists":true}}`, true},
		{`{"metadata.empty":""}`, true},
		{`{"metadata.a.dotted.key":"deep"}`, true},

		{`{"metadata.gone":"x"}`, false},
		{`{"metadata.gone":{"$ne":"x"}}`, true},
		{`{"metadata.gone":{"$nin":["x"]}}`, true},
		{`{"metadata.gone":{"$in":["x"]}}`, false},
		{`{"metadata.gone":{"$regex":"undefined"}}`, false},
		{`{"metadata.gone":{"$regex":""}}`, false},
		{`{"metadata.gone":{"$lt":5}}`, false},
		{`{"metadata.gone":{"$exists":false}}`, true},
		{`{"metadata.gone":null}`, false},

		{`{"params.model":"m-1"}`, true},
		{`{"params.temperature":0.5}`, true},
		{`{"params.temperature":5e-1}`, true},
		{`{"params.temperature":"0.5"}`, false},
		{`{"params.max_tokens":{"$gte":100,"$lt":101}}`, true},
		{`{"params.max_tokens":{"$gte":100,"$lt":100}}`, false},
		{`{"params.stream":true}`, true},
		{`{"params.stream":"true"}`, false},
		{`{"params.user":null}`, true},
		{`{"params.gone":null}`, false},
		{`{"params.stop":{"$contains":"b"}}`, true},
		{`{"params.response_format.type":"json_object"}`, true},
		{`{"params.response_format.deep.er[0].x":7}`, true},
		{`{"params.messages[0].content":"Héllo"}`, true},
		{`{"params.messages[1].content":{"$exists":true}}`, false},

		{`{"headers.x-tenant":"Acme"}`, true},
		{`{"headers.x-tenant":"acme"}`, false},
		{`{"headers.x-many":{"$regex":"two"}}`, true},
		{`{"headers.authorization":{"$exists":true}}`, false},
		{`{"headers.x-api-key":{"$exists":true}}`, false},
		{`{"headers.x-gateway-api-key":{"$exists":true}}`, false},
		{`{"headers.cookie":{"$exists":true}}`, false},

		{`{"url.pathname":"/v1/chat/completions"}`, true},
		{`{"url.pathname":"/chat/completions"}`, true},
		{`{"url.pathname":{"$regex":"^/chat/"}}`, true},
		{`{"url.pathname":{"$ne":"/chat/completions"}}`, false},
		{`{"url.query.tier":"gold"}`, true},
		{`{"url.query.blank":""}`, true},
		{`{"url.query.gone":{"$exists":true}}`, false},

		{`{"metadata.plan":"pro","params.stream":true}`, true},
		{`{"metadata.plan":"pro","params.stream":false}`, false},
		{`{"$and":[{"metadata.plan":"pro"},{"params.stream":true}]}`, true},
		{`{"$or":[{"metadata.plan":"x"},{"params.stream":true}]}`, true},
		{`{"$or":[{"metadata.plan":"pro"}],"params.stream":false}`, false}, // siblings of $or count
		{`{"params.stream":false,"$or":[{"metadata.plan":"pro"}]}`, false},
		{`{"$not":{"metadata.plan":"x"}}`, true},
		{`{"$and":[{"$or":[{"metadata.plan":"x"},{"$and":[{"params.stream":true}]}]}]}`, true},
	} {
		t.Run(tt.query, func(t *testing.T) {
			r := pipelinetest.New(t, rtCondition(tt.query))
			got := r.Send(rtQuestion, func(x *pipelinetest.Request) { pipelinetest.SetBody(t, x, rtAsked) })
			if yes := got.Path == "1"; yes != tt.want {
				t.Errorf("%s: %t, want %t; %v", tt.query, yes, tt.want, got.X.Trail.Decisions)
			}
		})
	}
}

// S-076
func TestTheFirstConditionThatHoldsDecides(t *testing.T) {
	r := pipelinetest.New(t, `{"strategy":{"mode":"conditional","conditions":[
		{"query":{"metadata.a":"1"},"then":"first"},
		{"query":{"metadata.a":{"$exists":true}},"then":"second"}],"default":"third"},
		"targets":[{"name":"third","provider":"@c"},{"name":"second","provider":"@b"},{"name":"first","provider":"@a"}]}`)
	for _, tt := range []struct{ meta, want string }{{"1", "2"}, {"2", "1"}, {"", "0"}} {
		change := pipelinetest.Meta()
		if tt.meta != "" {
			change = pipelinetest.Meta("a", tt.meta)
		}
		if got := r.Send(change); got.Path != tt.want {
			t.Errorf("metadata %q went to %s, want %s", tt.meta, got.Path, tt.want)
		}
	}
}

func TestABodyThatStreamsThroughHasNoParams(t *testing.T) {
	r := pipelinetest.New(t, rtCondition(`{"params.model":{"$exists":true}}`))
	if got := r.Send(func(x *pipelinetest.Request) { x.Received.Upload = &exchange.Upload{Body: strings.NewReader("form")} }); got.Path != "0" {
		t.Errorf("went to %s, want the default", got.Path)
	}
}

// Conditions see the request as the client sent it, not as a config changes it.
func TestConditionsSeeTheRequestBeforeOverrides(t *testing.T) {
	config := strings.Replace(rtCondition(`{"params.model":"m-1"}`), `{"strategy"`, `{"override_params":{"model":"other"},"strategy"`, 1)
	r := pipelinetest.New(t, config)
	if got := r.Send(func(x *pipelinetest.Request) { pipelinetest.SetBody(t, x, rtAsked) }); got.Path != "1" {
		t.Errorf("went to %s, want 1", got.Path)
	}
}

// What conditions read is reported by its length where it may be private.
func TestDecisionsTellNoPrivateText(t *testing.T) {
	for _, tt := range []struct {
		path string
		told bool
	}{
		{"metadata.plan", true}, {"params.model", true}, {"params.temperature", true}, {"url.pathname", true},
		{"params.messages[0].content", false}, {"headers.x-tenant", false}, {"url.query.tier", false},
	} {
		r := pipelinetest.New(t, rtCondition(fmt.Sprintf(`{%q:"nothing like it"}`, tt.path)))
		got := r.Send(rtQuestion, func(x *pipelinetest.Request) { pipelinetest.SetBody(t, x, rtAsked) })
		if !got.HasDecision(tt.path) || got.HasDecision(tt.path+" is ") != tt.told || got.HasDecision(tt.path+" has ") == tt.told {
			t.Errorf("%s told %v, want its value told: %t", tt.path, got.X.Trail.Decisions, tt.told)
		}
	}
}

func TestAConditionWithinAFallback(t *testing.T) {
	inner := rtCondition(`{"metadata.plan":"pro"}`)
	r := pipelinetest.New(t, `{"strategy":{"mode":"fallback"},"targets":[`+inner+`,`+pipelinetest.Leaf+`]}`).On("0.1", pipelinetest.Error(apierr.UpstreamFailed))
	if got := r.Send(rtQuestion); got.TargetList() != "0.1 1" || got.Status != 200 {
		t.Errorf("status %d after %q, want 200 after 0.1 1", got.Status, got.TargetList())
	}
}
