package batches

import (
	"encoding/json"
	"strings"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/limits/policy"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/vendorbatch"
)

// operations are the operations of the endpoints of batches, for policies. Only batches of the
// protocol of Anthropic have messages.
var operations = map[string]api.Operation{
	"/v1/responses": api.Responses, "/v1/chat/completions": api.Chat, "/v1/embeddings": api.Embeddings,
	"/v1/messages": api.Messages, "/v1/completions": api.Completions, "/v1/moderations": api.Moderations, "/v1/images/generations": api.Images,
}

// hasPolicies reports whether policies may count the batch.
func (f *followed) hasPolicies() bool {
	return f.Budgets.Policies != nil && !f.Budgets.Policies().Empty()
}

// requestedModels returns the models that lines ask for, by custom_id. It is nil if no
// policies need them, or if the provider has the file: then results name the models.
func (f *followed) requestedModels(in *vendorbatch.Input) (map[string]string, error) {
	if !f.hasPolicies() || in.Lines == nil {
		return nil, nil
	}
	models, asked := make(map[string]string), make(map[string]string)
	for l, err := range in.Lines() {
		if err != nil {
			return nil, err
		}
		var doc jsonedit.Doc
		if doc.Scan(l.Body) != nil {
			continue
		}
		v, _ := doc.Find("model")
		model, _ := v.Text()
		if models[model] == "" {
			models[model] = strings.Clone(model)
		}
		asked[strings.Clone(l.CustomID)] = models[model]
	}
	return asked, nil
}

// countFor adds the settlement of a result to those of the model that its line asked for. A
// line that the provider has not run counts nothing.
func (f *followed) countFor(x *results, asked map[string]string, r *vendorbatch.Result, s reqlog.Settlement) {
	if !f.hasPolicies() || r.Status == 0 && !s.Usage.Known {
		return
	}
	model, ok := asked[r.CustomID]
	if !ok {
		model = x.model
	}
	if x.byModel == nil {
		x.byModel = make(map[string]*reqlog.Spend)
	}
	use := x.byModel[model]
	if use == nil {
		use = new(reqlog.Spend)
		x.byModel[model] = use
	}
	use.AddSettlement(&s)
}

// policyCounters returns what a batch that has ended counts for the budgets of policies that
// apply to its lines now, by counter.
func (f *followed) policyCounters(x *results) map[string]*reqlog.Spend {
	if len(x.byModel) == 0 {
		return nil
	}
	set, facts := f.Budgets.Policies(), f.facts()
	counters := make(map[string]*reqlog.Spend)
	for model, use := range x.byModel {
		facts.Model = model
		for _, l := range set.Match(nil, &facts) {
			name, ok := strings.CutPrefix(l.Counter, "policy/")
			if !ok || !l.IsBudget() {
				continue
			}
			if counters[name] == nil {
				counters[name] = new(reqlog.Spend)
			}
			counters[name].Add(*use)
		}
	}
	return counters
}

// facts returns what policies read of the lines of the batch, without their models.
func (f *followed) facts() policy.Facts {
	facts := policy.Facts{
		Time: f.Now(), Organisation: f.object.Organisation, Workspace: f.object.Workspace, KeyID: f.object.KeyID, User: f.User,
		EndpointType: string(operations[f.Batch.Endpoint]), TraceID: f.TraceID, Provider: f.target.ID, Slug: f.target.Slug,
	}
	json.Unmarshal([]byte(f.Headers[api.HeaderMetadata]), &facts.Metadata) // an object of strings, or nothing
	return facts
}
