package pipeline

import (
	"bytes"
	"slices"
	"time"

	"modelgate/api"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

// unknownOutput is the largest output, in tokens, that is assumed of a model
// without a known limit for a request that sets none.
const unknownOutput = 4096

// claims appends what the attempt claims, in the order in which limits are
// checked: those of the key and its user, of the workspace, of the provider, of
// policies. Counted are the counters that have the request already.
func (acc *attemptAccount) claims(dst []quota.Claim, counted []string, now time.Time) []quota.Claim {
	for _, list := range [...][]*quota.Limit{acc.attempt.request.Limiting.Limits, acc.attempt.record.Target.Quota,
		acc.attempt.policyLimits(now)} {
		for _, l := range list {
			switch {
			case !countsOne(l) && !acc.sent.uses(), l.PerAttempt && acc.local:
			case !countsOne(l):
				dst = append(dst, acc.claim(l))
			case l.PerAttempt || !slices.Contains(counted, l.Counter):
				dst = append(dst, quota.Claim{Limit: l, Amount: 1, Least: 1})
			}
		}
	}
	return dst
}

// useEstimate is what an attempt may use. It is made when a limit needs it.
type useEstimate struct {
	made    bool
	least   quota.Use // with the shortest output
	most    quota.Use // with the largest output
	guessed bool      // the largest output is unknown
}

func (e *useEstimate) make(acc *attemptAccount) {
	doc, sent := acc.attempt.bodies()
	u := llm.Usage{Known: true, Input: acc.sent.largestInput(acc.attempt)}
	for _, d := range [...]*jsonedit.Doc{doc, sent} {
		if d != nil && d != acc.attempt.request.Received.Doc {
			u.Input = max(u.Input, acc.attempt.inputSize(d.Bytes()))
		}
	}
	if doc != nil && takesTokens(acc.attempt.request.Operation) {
		u.Input = max(u.Input, 1+int64(bytes.Count(doc.Bytes(), []byte{','}))) // an array of one-digit tokens has two bytes for each
	}
	largest, known := acc.attempt.largestOutput(acc.attempt.sentFields(), sent)
	u.Output = min(largest, 1)
	e.made, e.guessed, e.least = true, !known, acc.use(u)
	u.Output = largest
	e.most = acc.use(u)
	if cost, ok := acc.largestUnitCost(doc); ok {
		_, _, priced := acc.cost(u, "", catalog.Standard)
		e.most.Cost = int64(cost)
		if priced {
			e.most.Cost = max(int64(cost), e.most.Cost)
		}
	}
}

// takesTokens reports whether input may be arrays of tokens.
func takesTokens(op api.Operation) bool { return op == api.Embeddings || op == api.Completions }

// claim returns the claim of l. Of a limit that lets responses finish it takes
// what is left. A limit that is never exceeded must have room for the largest
// response, or for the beginning of a stream, which it can end.
func (acc *attemptAccount) claim(l *quota.Limit) quota.Claim {
	e := &acc.estimate
	if !e.made {
		e.make(acc)
	}
	c := quota.Claim{Limit: l, Amount: max(e.most.Of(l.Measure), 1), Least: 1}
	switch {
	case l.Stop && acc.attempt.endsEarly():
		c.Least = max(e.least.Of(l.Measure), 1)
	case l.Stop:
		c.Least = c.Amount
	}
	return c
}

// use returns what u counts for in the ledger.
func (acc *attemptAccount) use(u llm.Usage) quota.Use {
	s := reqlog.Settlement{Outcome: reqlog.Answered, Usage: u}
	s.Cost, _, s.Priced = acc.cost(u, "", catalog.Standard)
	return useOf(&s)
}

// largestInput returns an estimate of the input of a request that has not been
// sent.
func (s *sentRequest) largestInput(a *attempt) int64 {
	if s.upload != nil {
		return s.uploadTokens(s.largestSize())
	}
	return s.tokens(a)
}

// bodies returns the body in the client's dialect, with the edits of the saved prompt and
// the config, and the body that is sent. They are nil if they are not JSON objects.
func (a *attempt) bodies() (doc, sent *jsonedit.Doc) {
	buf, ok := a.call.Body.Source.(*bytepool.Buffer)
	if !ok || a.request.Received.Doc == nil {
		doc = a.sentDoc()
		return doc, doc
	}
	if buf == a.request.Received.Body {
		return a.request.Received.Doc, a.request.Received.Doc
	}
	sent = new(jsonedit.Doc)
	if sent.Scan(buf.Bytes()) != nil {
		return a.sentDoc(), nil
	}
	switch {
	case a.hasOwnFormat():
		doc = a.sentDoc()
		return doc, doc
	case a.wire.translates():
		return a.sentDoc(), sent
	}
	return sent, sent
}

// sentDoc returns the body with the edits of the saved prompt and the config, before
// it is translated. Nil is a body that is not JSON.
func (a *attempt) sentDoc() *jsonedit.Doc {
	if a.request.Received.Doc == nil || !a.editsBody() && len(a.request.Edits) == 0 {
		return a.request.Received.Doc
	}
	doc, err := a.applyConfigParams()
	if err != nil {
		return a.request.Received.Doc // building the request returns the error
	}
	return doc
}

// largestOutput returns the largest output of the attempt in tokens: what the body with
// these fields allows, or else the model. It returns false if neither is known.
func (a *attempt) largestOutput(f outputFields, doc *jsonedit.Doc) (n int64, known bool) {
	switch op := a.request.Operation; {
	case writesNothing(op), op == api.Files, op == api.Batches, op == api.FineTuning:
		return 0, true
	}
	if n, known = f.limit(doc); !known {
		most := int64(0)
		if rule := a.record.Target.Rule(a.record.Model); rule != nil {
			most = rule.MaxOutput
		}
		if known = most > 0 && len(f.limits) > 0; !known {
			most = max(most, unknownOutput)
		}
		n = max(n, most)
	}
	return min(n*f.responses(doc)*f.promptsIn(doc), maxOutput), known
}
