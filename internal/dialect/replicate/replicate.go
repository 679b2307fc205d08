// Package replicate is the dialect of Replicate's predictions.
//
// It promises that what models there can be asked in common, words, images and
// sampling, reaches them, and that what has no place is told. A prediction is a
// job: following it, and which model needs which address, is left to the pipeline
// and to the provider table. Inputs differ by model; the names are those of the
// models of language and images that Replicate itself looks after.
//
// https://replicate.com/docs/reference/http
package replicate

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// Dialect is the dialect as providers see it.
type Dialect struct{}

var (
	_ dialect.ProviderCodec       = Dialect{}
	_ dialect.OperationTranslator = Dialect{}
	_ dialect.JobReader           = Dialect{}
)

const name = string(api.DialectReplicate)

// EncodeRequest appends the body that makes a prediction.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	return encodeRequest(dst, r, to)
}

// DecodeResponse reads a prediction that has succeeded.
func (Dialect) DecodeResponse(body []byte, _ *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, err
	}
	out := &llm.Response{Dialect: name, ID: text(v, "id"), Model: to.Model, Usage: usageOf(v)}
	output, _ := v.Get("output")
	choice := llm.Choice{Stop: llm.StopEnd, NativeFinishReason: text(v, "status")}
	if words := strings.Join(texts(output), ""); words != "" {
		choice.Parts = []llm.Part{llm.Text{Text: words}}
	}
	out.Choices = []llm.Choice{choice}
	return out, nil
}

// NewDecoder returns a decoder for the events of one prediction.
func (Dialect) NewDecoder(_ *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	return &decoder{model: to.Model}
}

// Translator returns the translation of images.
func (Dialect) Translator(op api.Operation, _ dialect.RequestTarget) (dialect.Translator, bool) {
	if op != api.Images {
		return dialect.Translator{}, false
	}
	return dialect.Translator{Request: imageRequest, Response: imageResponse}, true
}

var errNoJob = errors.New("the body is no prediction")

// ended are the states in which nothing more happens.
var ended = map[string]bool{"succeeded": true, "failed": true, "canceled": true, "aborted": true}

// ReadJob reads the state of a prediction.
func (Dialect) ReadJob(body []byte) (dialect.Job, error) {
	v, err := jsonedit.ParseValue(body)
	id, status := text(v, "id"), text(v, "status")
	if err != nil || id == "" || status == "" {
		return dialect.Job{}, errNoJob
	}
	urls, _ := v.Get("urls")
	path := "/predictions/" + url.PathEscape(id)
	job := dialect.Job{Path: path, Cancel: path + "/cancel", Stream: text(urls, "stream"), Done: ended[status]}
	if job.Done && status != "succeeded" {
		job.Failed = status
		if words := text(v, "error"); words != "" {
			job.Failed += ": " + words
		}
	}
	return job, nil
}

// version matches the id of a version, by itself or after a model's name.
var version = regexp.MustCompile(`^(?:.*:)?([0-9a-f]{64})$`)

// Version returns the version that a model's name names, empty when it names a
// model that Replicate looks after or a deployment.
func Version(model string) string {
	if m := version.FindStringSubmatch(model); m != nil {
		return m[1]
	}
	return ""
}

// texts are the texts of an output: one, or a list of pieces.
func texts(v jsonedit.Value) (list []string) {
	if s, ok := v.Text(); ok {
		return append(list, s)
	}
	for e := range v.Elements() {
		if s, ok := e.Text(); ok {
			list = append(list, s)
		}
	}
	return list
}

func usageOf(v jsonedit.Value) llm.Usage {
	metrics, _ := v.Get("metrics")
	in, counted := metrics.Get("input_token_count")
	out, _ := metrics.Get("output_token_count")
	u := llm.Usage{Known: counted}
	u.Input, _ = in.Int()
	u.Output, _ = out.Int()
	return u
}

// text returns a member that is a string, empty when there is none.
func text(v jsonedit.Value, name string) string {
	member, _ := v.Get(name)
	s, _ := member.Text()
	return s
}
