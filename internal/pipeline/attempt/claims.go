package attempt

import (
	"bytes"

	"modelgate/api"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/records/reqlog"
)

// unknownOutput is the largest output, in tokens, that is assumed of a model
// without a known limit for a request that sets none.
const unknownOutput = 4096

// Uses implements [metering.Attempt].
func (acc *attemptAccount) Uses(quota.Measure) bool { return acc.sent.uses() }

// EndsEarly implements [metering.Attempt].
func (acc *attemptAccount) EndsEarly() bool { return acc.attempt.plan.endsEarly() }

// Extension implements [metering.Attempt].
func (acc *attemptAccount) Extension() quota.Use {
	return acc.use(llm.Usage{Known: true, Output: extension})
}

// Estimate implements [metering.Attempt].
func (acc *attemptAccount) Estimate() (e metering.Estimate) {
	doc, sent := acc.attempt.plan.bodies()
	u := llm.Usage{Known: true, Input: acc.sent.largestInput(acc.attempt)}
	for _, d := range [...]*jsonedit.Doc{doc, sent} {
		if d != nil && d != acc.attempt.plan.request.Received.Doc {
			u.Input = max(u.Input, acc.attempt.plan.inputSize(d.Bytes()))
		}
	}
	if doc != nil && takesTokens(acc.attempt.plan.request.Operation) {
		u.Input = max(u.Input, 1+int64(bytes.Count(doc.Bytes(), []byte{','}))) // an array of one-digit tokens has two bytes for each
	}
	largest, known := acc.attempt.plan.largestOutput(acc.attempt.plan.sentFields(), sent)
	u.Output = min(largest, 1)
	e.Guessed, e.Least = !known, acc.use(u)
	u.Output = largest
	e.Most = acc.use(u)
	if cost, ok := acc.largestUnitCost(doc); ok {
		_, _, priced := acc.cost(u, "", catalog.Standard)
		e.Most.Cost = int64(cost)
		if priced {
			e.Most.Cost = max(int64(cost), e.Most.Cost)
		}
	}
	return e
}

// takesTokens reports whether input may be arrays of tokens.
func takesTokens(op api.Operation) bool { return op == api.Embeddings || op == api.Completions }

// use returns what u counts for in the ledger.
func (acc *attemptAccount) use(u llm.Usage) quota.Use {
	s := reqlog.Settlement{Outcome: reqlog.Answered, Usage: u}
	tier := catalog.Standard
	if b := acc.attempt.plan.request.Limiting.Batch; b != nil {
		tier = b.Tier
	}
	s.Cost, _, s.Priced = acc.cost(u, "", tier)
	return metering.UseOf(&s)
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
func (p *plan) bodies() (doc, sent *jsonedit.Doc) {
	buf, ok := p.call.Body.Source.(*bytepool.Buffer)
	if !ok || p.request.Received.Doc == nil {
		doc = p.sentDoc()
		return doc, doc
	}
	if buf == p.request.Received.Body {
		return p.request.Received.Doc, p.request.Received.Doc
	}
	sent = new(jsonedit.Doc)
	if sent.Scan(buf.Bytes()) != nil {
		return p.sentDoc(), nil
	}
	switch {
	case p.hasOwnFormat():
		doc = p.sentDoc()
		return doc, doc
	case p.wire.translates():
		return p.sentDoc(), sent
	}
	return sent, sent
}

// sentDoc returns the body with the edits of the saved prompt and the config, before
// it is translated. Nil is a body that is not JSON.
func (p *plan) sentDoc() *jsonedit.Doc {
	if p.request.Received.Doc == nil || !p.editsBody() && len(p.request.Edits) == 0 {
		return p.request.Received.Doc
	}
	doc, err := p.applyConfigParams()
	if err != nil {
		return p.request.Received.Doc // building the request returns the error
	}
	return doc
}

// largestOutput returns the largest output of the attempt in tokens: what the body with
// these fields allows, or else the model. It returns false if neither is known.
func (p *plan) largestOutput(f outputFields, doc *jsonedit.Doc) (n int64, known bool) {
	switch op := p.request.Operation; {
	case writesNothing(op), op == api.Files, op == api.Batches, op == api.FineTuning:
		return 0, true
	}
	if n, known = f.limit(doc); !known {
		most := int64(0)
		if rule := p.record.Target.Rule(p.record.Model); rule != nil {
			most = rule.MaxOutput
		}
		if known = most > 0 && len(f.limits) > 0; !known {
			most = max(most, unknownOutput)
		}
		if b := p.request.Limiting.Batch; b != nil && b.Output > 0 {
			most = min(most, b.Output)
		}
		n = max(n, most)
	}
	return min(n*f.responses(doc)*f.promptsIn(doc), maxOutput), known
}
