package simulator

import (
	"net/http"
	"strings"
)

// A cohereTuning is a model that is fine-tuned.
// https://docs.cohere.com/reference/createfinetunedmodel
type cohereTuning struct {
	*training
	name     string
	settings map[string]any
}

var cohereTuningStates = [jobPhaseCount]string{
	jobQueued: "STATUS_QUEUED", jobRunning: "STATUS_FINETUNING", jobWriting: "STATUS_DEPLOYING_API", jobCanceling: "STATUS_FINETUNING",
	jobCompleted: "STATUS_READY", jobFailed: "STATUS_FAILED", jobCanceled: "STATUS_DELETED", jobExpired: "STATUS_FAILED",
}

// serveFinetunedCreate answers POST /finetuning/finetuned-models.
func serveFinetunedCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "name", "settings")
	j := &cohereTuning{name: c.filled(body, "name", ""), settings: c.object(body["settings"], "settings")}
	c.checkMembers(j.settings, "settings", "base_model", "dataset_id", "hyperparameters", "multi_label", "wandb")
	base := c.object(j.settings["base_model"], "settings.base_model")
	c.checkMembers(base, "settings.base_model", "base_type", "name", "version", "strategy")
	c.filled(base, "base_type", "settings.base_model")
	c.word(base, "base_type", "settings.base_model", "BASE_TYPE_GENERATIVE", "BASE_TYPE_CLASSIFICATION", "BASE_TYPE_RERANK",
		"BASE_TYPE_CHAT")
	parameters := c.child(j.settings, "hyperparameters", "settings")
	c.checkMembers(parameters, "settings.hyperparameters", "early_stopping_patience", "early_stopping_threshold", "train_batch_size",
		"train_epochs", "learning_rate", "lora_alpha", "lora_rank", "lora_target_modules")
	d, ok := findRecord[*cohereDataset](&x.sim.stored, cohereDatasets, c.filled(j.settings, "dataset_id", "settings"))
	if c.wrong.kind == "" && (!ok || !strings.HasSuffix(d.kind, "finetune-input") || !d.validated()) {
		c.fail("settings.dataset_id", "there is no such validated dataset for fine-tuning")
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	model := valueOr(c.text(base, "name", ""), "command")
	j.training = x.newTraining("sim-", model, d.content)
	j.queue = false
	j.epochs = max(c.integer(parameters, "train_epochs", "", 1), 1)
	x.sim.stored.add(cohereTunings, j.id, len(x.in)+len(j.content), j)
	x.sendCreated(http.StatusOK, object{"finetuned_model": j.describe()})
}

// describe returns the model. The caller holds mu, or nobody else has j.
func (j *cohereTuning) describe() any {
	return object{"id": j.id, "name": j.name, "creator_id": "user-sim", "organization_id": "org-sim", "settings": j.settings,
		"status": cohereTuningStates[j.phase], "created_at": j.stamp(jobQueued), "updated_at": stampOf(j.at[j.phase]),
		"completed_at": j.stamp(jobCompleted), "last_used": nil}
}

// serveFinetunedModels answers GET /finetuning/finetuned-models.
func serveFinetunedModels(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("page_size", "page_token", "order_by")
	if !ok {
		return
	}
	all := listRecords[*cohereTuning](&x.sim.stored, cohereTunings)
	page, more, wrong := pageAfter(pager{usual: 50, most: 1000}, all, func(j *cohereTuning) string { return j.id },
		map[string][]string{"limit": query["page_size"], "after": query["page_token"]})
	if wrong.kind != "" {
		x.refuse(statusOf, wrong)
		return
	}
	list := make([]any, len(page))
	next := ""
	for i, j := range page {
		j.mu.Lock()
		list[i] = j.describe()
		j.mu.Unlock()
		if more {
			next = j.id
		}
	}
	x.sendJSON(http.StatusOK, object{"finetuned_models": list, "next_page_token": next, "total_size": len(all)})
}

// serveFinetunedModel answers GET and DELETE of a model, and GET of its events.
func serveFinetunedModel(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/finetuning/finetuned-models/")
	j, ok := findRecord[*cohereTuning](&x.sim.stored, cohereTunings, parts[0])
	operation := x.r.Method + " " + strings.Join(parts[1:], "/")
	if !ok {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "finetuned model " + parts[0] + " not found"})
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch operation {
	case "GET ":
		j.read(x.began)
		x.sendJSON(http.StatusOK, object{"finetuned_model": j.describe()})
	case "DELETE ":
		x.sim.stored.remove(cohereTunings, j.id)
		x.sendJSON(http.StatusOK, object{})
	case "GET events":
		var list []any
		for phase, at := range j.at {
			if !at.IsZero() {
				list = append(list, object{"user_id": "user-sim", "status": cohereTuningStates[phase], "created_at": stampOf(at)})
			}
		}
		x.sendJSON(http.StatusOK, object{"events": list, "next_page_token": "", "total_size": len(list)})
	case "GET training-step-metrics":
		var list []any
		for step := range trainingSteps {
			if j.tokens > 0 {
				list = append(list, object{"step_number": step + 1, "created_at": j.stamp(jobWriting),
					"metrics": object{"loss": lossOf(step)}})
			}
		}
		x.sendJSON(http.StatusOK, object{"step_metrics": list, "next_page_token": ""})
	default:
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "there is no such operation of a model"})
	}
}
