package attempt

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// A body of 50 MB holds millions of flags. Searching them one by one took minutes of a
// processor for the 200,000 of this test.
func TestAnyNumberOfBetaFlagsTakesLittleTime(t *testing.T) {
	const flags = 200_000
	var body strings.Builder
	body.WriteString(`{"anthropic_beta":["sent"`)
	for i := range flags {
		body.WriteString(`,"f` + strconv.Itoa(i%(flags/2)) + `"`) // each twice
	}
	body.WriteString(`]}`)
	var doc jsonedit.Doc
	if err := doc.Scan([]byte(body.String())); err != nil {
		t.Fatal(err)
	}
	spec := &provider.Spec{
		BodyRules: map[api.Operation]provider.BodyRule{api.Messages: {Betas: betaField}},
		Betas:     provider.Betas{Allow: []string{"sent"}},
	}
	a := &attempt{plan: plan{record: exchange.Attempt{Target: &provider.Target{Spec: spec}}, trail: new(exchange.Trail), request: new(exchange.Request), handler: new(TargetHandler), wire: wirePlan{op: api.Messages}}}
	ended := make(chan []jsonedit.Edit, 1)
	go func() { ended <- a.plan.mergeBetaFlags(&doc, http.Header{exchange.BetaHeader: {"sent"}}) }()
	select {
	case edits := <-ended:
		if last := edits[len(edits)-1]; string(last.Value) != `["sent"]` {
			t.Errorf("the target gets %.60s, want the flag it takes, once", last.Value)
		}
	case <-time.After(time.Minute):
		t.Fatal("merging the flags takes more than a minute")
	}
	if n := len(a.plan.trail.Notes); n != flags/2 {
		t.Errorf("%d flags are noted as dropped, want each of %d once", n, flags/2)
	}
	dropped := dialect.ParamChange{Name: "anthropic-beta", Outcome: dialect.Dropped, Note: "f7"}
	if a.plan.trail.Note(dropped); len(a.plan.trail.Notes) != flags/2 {
		t.Error("a flag that was noted is noted again")
	}
}

func TestBodiesWithoutBetaFlagsSetNoHeader(t *testing.T) {
	for _, tt := range []struct{ sent, body, want string }{
		{"", `{"f":[]}`, ""},
		{"", `{"f":["a","b","a"]}`, "a,b"},
		{"a", `{"f":"a, c"}`, "a,c"},
	} {
		var doc jsonedit.Doc
		if err := doc.Scan([]byte(tt.body)); err != nil {
			t.Fatal(err)
		}
		field, _ := doc.Find("f")
		h := http.Header{}
		if tt.sent != "" {
			h[exchange.BetaHeader] = []string{tt.sent}
		}
		addFlags(h, field)
		if got := h[exchange.BetaHeader]; tt.want == "" && got != nil || tt.want != "" && (len(got) != 1 || got[0] != tt.want) {
			t.Errorf("%s after %q: header %q, want %q", tt.body, tt.sent, got, tt.want)
		}
	}
}
