package simulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// minExamples is the least number of examples in a training file.
	// https://platform.openai.com/docs/guides/supervised-fine-tuning
	minExamples = 10
	// trainingSteps is the number of checkpoints of a finished job.
	trainingSteps = 3
)

// A training is a job of fine-tuning, for any vendor.
type training struct {
	*job
	sim     *Simulator
	number  int64
	id      string
	base    string // model, without faults
	suffix  string
	epochs  int
	content []byte // of the training file
	least   int    // number of examples
	tokens  int    // trained, once the job has ended
	wrong   providerError
	results string // id of the file with results
	file    func(name string, content []byte) string
}

// newTraining returns a job that begins now. model may have faults.
func (x *exchange) newTraining(prefix, model string, content []byte) *training {
	base, _, _ := strings.Cut(model, "+")
	t := &training{sim: x.sim, number: x.number, id: prefix + strconv.FormatInt(x.number, 10), base: base, epochs: 3,
		content: content, least: 1}
	t.job = newJob(x.jobPaceOf(model), t, x.began)
	t.queue = true
	return t
}

// check reads the examples.
func (t *training) check() bool {
	count := 0
	for number, line := range eachLine(t.content) {
		var example map[string]json.RawMessage
		if json.Unmarshal(line, &example) != nil || len(example) == 0 {
			t.wrong = providerError{code: "invalid_training_file", param: "training_file",
				message: fmt.Sprintf("The job failed due to an invalid training file. Line %d is not a JSON object.", number)}
			return false
		}
		count++
	}
	if count < t.least {
		t.wrong = providerError{code: "invalid_n_examples", param: "training_file",
			message: fmt.Sprintf("Training file has %d example(s), but must have at least %d examples", count, t.least)}
		return false
	}
	return true
}

// produce counts what was trained and stores the results.
func (t *training) produce(end jobPhase, began bool) {
	if !began {
		return
	}
	t.tokens = tokensOf(len(t.content)) * max(t.epochs, 1)
	if end != jobCompleted {
		t.tokens /= 2
		return
	}
	var csv strings.Builder
	csv.WriteString("step,train_loss,train_accuracy\n")
	for step := range trainingSteps {
		fmt.Fprintf(&csv, "%d,%g,%g\n", step+1, lossOf(step), 1-lossOf(step))
	}
	if t.file != nil {
		t.results = t.file("step_metrics.csv", []byte(csv.String()))
	}
}

// lossOf returns the training loss after a step.
func lossOf(step int) float64 { return 0.5 / float64(step+1) }

// failure returns the error of a failed job.
func (t *training) failure() providerError {
	if t.wrong.code != "" {
		return t.wrong
	}
	return providerError{code: "server_error", message: "The job failed due to an internal error."}
}

// model returns the name of the new model, or nil before the end.
func (t *training) model() any {
	if t.phase != jobCompleted {
		return nil
	}
	return t.modelName("")
}

func (t *training) modelName(checkpoint string) string {
	return "ft:" + t.base + ":simulator:" + t.suffix + ":" + strconv.FormatInt(t.number, 10) + checkpoint
}

// A trainingEvent is a message of a job.
type trainingEvent struct {
	id      string
	at      time.Time
	level   string
	message string
	data    any
}

// events returns the messages, newest first. The caller holds mu.
func (t *training) events() (list []trainingEvent) {
	add := func(phase jobPhase, level, message string, data any) {
		if at := t.at[phase]; !at.IsZero() {
			id := fmt.Sprintf("ftevent-sim%d_%d", t.number, len(list)+1)
			list = append(list, trainingEvent{id, at, level, message, data})
		}
	}
	add(jobQueued, "info", "Created fine-tuning job: "+t.id, nil)
	add(jobQueued, "info", "Validating training file", nil)
	add(jobRunning, "info", "Fine-tuning job started", nil)
	for step := range trainingSteps {
		loss := lossOf(step)
		add(jobWriting, "info", fmt.Sprintf("Step %d/%d: training loss=%.2f", step+1, trainingSteps, loss),
			object{"step": step + 1, "train_loss": loss, "total_steps": trainingSteps})
	}
	add(jobCompleted, "info", "New fine-tuned model created: "+t.modelName(""), nil)
	add(jobCompleted, "info", "The job has successfully completed", nil)
	add(jobFailed, "error", t.failure().message, nil)
	add(jobCanceled, "info", "The job was cancelled", nil)
	slices.Reverse(list)
	return list
}
