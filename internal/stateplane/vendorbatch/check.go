package vendorbatch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// Limits are what a vendor accepts in a batch. Zero means that there is no limit.
type Limits struct {
	Endpoints []string
	Lines     int   // most lines, or inputs of embeddings where each is sent on its own
	MinLines  int   // fewest of these
	Bytes     int64 // of the input, in the vendor's format
	OneModel  bool  // of all lines
	Windows   []string
	Inputs    int // of all lines of embeddings
}

func (l *Limits) hasEndpoint(name string) bool { return slices.Contains(l.Endpoints, name) }

// summary is what the check of an input found.
type summary struct {
	lines, inputs int
	bytes         int64 // of all records in the vendor's format, each with a line break
	records       int
	hash          hash.Hash // SHA-256 of these
	betas         []string  // beta features that the lines need

	inputType, truncate string // of all lines of embeddings, where they belong to the job
}

// check validates the input for the vendor, and translates each line to find out what
// cannot be translated and how long it is. It sends nothing.
func (j *job) check() error {
	l, in := &j.Limits, j.in
	if len(l.Windows) > 0 && in.Window != "" && !slices.Contains(l.Windows, in.Window) {
		return apierr.New(apierr.Invalid, "completion_window must be %s for batches of %s", orList(l.Windows), j.spec.Name).
			WithParam("completion_window").WithCode("unsupported_window")
	}
	if in.FileID != "" {
		return nil
	}
	if in.Lines == nil {
		return errors.New("the batch has no lines")
	}
	var wrong Errors
	j.summary.hash = sha256.New()
	for line, err := range in.Lines() {
		if err != nil {
			return fmt.Errorf("reading the lines of the batch: %w", err)
		}
		j.checkLine(&line, &wrong)
		if wrong.isFull() || l.Lines > 0 && j.summary.lines > l.Lines {
			break
		}
	}
	j.checkSize(&wrong)
	return wrong.orNil()
}

// checkLine adds what is wrong with a line.
func (j *job) checkLine(line *Line, wrong *Errors) {
	s := &j.summary
	s.lines++
	if model := modelOf(line.Body); j.in.Model == "" && j.Limits.OneModel && model != j.codec.model {
		wrong.add(line.Number, "mixed_models", "body.model", fmt.Sprintf(
			"all lines of a batch of %s must have the same model; the first one has %.60q, this one %.60q", j.spec.Name, j.codec.model, model))
		return
	}
	if line.URL != "" && line.URL != j.in.Endpoint {
		wrong.add(line.Number, "mismatched_url", "url", fmt.Sprintf("url must be the endpoint of the batch, %s", j.in.Endpoint))
		return
	}
	if j.Limits.Inputs > 0 {
		n, _ := dialect.CountInputs(line.Body)
		s.inputs += n
	}
	err := j.codec.check(line.Body)
	if err == nil {
		err = j.eachRecord(line, func(key string, body []byte) error {
			s.records++
			record := append(j.record(nil, line, key, body), '\n')
			s.bytes += int64(len(record))
			_, _ = s.hash.Write(record) // never fails
			return nil
		})
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		param := "body"
		if e.Param != "" {
			param += "." + e.Param
		}
		wrong.add(line.Number, e.CodeOrDefault(), param, e.Message)
	} else if err != nil {
		wrong.add(line.Number, "invalid_line", "body", err.Error())
	}
}

// checkSize adds what is wrong with the input.
func (j *job) checkSize(wrong *Errors) {
	l, s, name := &j.Limits, &j.summary, j.spec.Name
	requests := max(s.lines, s.records) // a line may be sent as several
	switch {
	case s.lines == 0:
		wrong.add(0, "empty_file", "", "the input has no lines")
	case l.Lines > 0 && requests > l.Lines:
		wrong.add(0, "too_many_lines", "", fmt.Sprintf("a batch of %s must have at most %d lines; divide the input", name, l.Lines))
	case requests < l.MinLines:
		wrong.add(0, "too_few_lines", "", fmt.Sprintf("a batch of %s must have at least %d lines; the input has %d: add some, or leave out x-gateway-provider and the gateway runs the batch itself",
			name, l.MinLines, requests))
	case l.Bytes > 0 && s.bytes > l.Bytes:
		wrong.add(0, "file_too_large", "", fmt.Sprintf(
			"the input of a batch of %s must have at most %d bytes; it has %d in the format of the provider", name, l.Bytes, s.bytes))
	case l.Inputs > 0 && s.inputs > l.Inputs:
		wrong.add(0, "too_many_inputs", "", fmt.Sprintf("a batch of %s must have at most %d inputs of embeddings; it has %d",
			name, l.Inputs, s.inputs))
	}
}

// modelOf returns the model that a body names.
func modelOf(body []byte) string {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return ""
	}
	return v.TextOf("model")
}

// orList returns "a, b or c".
func orList(words []string) string {
	var out bytes.Buffer
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			out.WriteString(" or ")
		case i > 0:
			out.WriteString(", ")
		}
		out.WriteString(w)
	}
	return out.String()
}

// recorder is implemented by drivers whose records are not lines of OpenAI's format.
type recorder interface {
	// record appends what the vendor gets for a request of a line.
	record(dst []byte, line *Line, key string, body []byte) []byte
}

// trimmer is implemented by drivers that change the bodies of requests further.
type trimmer interface {
	trim(j *job, body []byte) ([]byte, error)
}

// eachRecord calls f for each request of a line, with its key and body.
func (j *job) eachRecord(line *Line, f func(key string, body []byte) error) error {
	bodies, key := [][]byte{line.Body}, j.keyOf(j.codec, line)
	split := false
	if j.codec.splits {
		if list := dialect.SplitInput(line.Body); list != nil {
			bodies, split = list, true
		}
	}
	for i, body := range bodies {
		body, err := j.codec.request(body)
		if t, ok := j.driver.(trimmer); ok && err == nil {
			body, err = t.trim(j, body)
		}
		if err != nil {
			return err
		}
		name := key
		if split {
			name = partKey(key, i)
		}
		if err := f(name, body); err != nil {
			return err
		}
	}
	return nil
}

// record appends the record of a request.
func (j *job) record(dst []byte, line *Line, key string, body []byte) []byte {
	if r, ok := j.driver.(recorder); ok {
		return r.record(dst, line, key, body)
	}
	return appendLine(dst, j.in.Endpoint, key, body)
}

// appendLine appends a line in OpenAI's format.
func appendLine(dst []byte, endpoint, key string, body []byte) []byte {
	b := jsonedit.AppendLine(dst)
	b.Open('{')
	b.Name("custom_id")
	b.String(key)
	b.Name("method")
	b.String("POST")
	b.Name("url")
	b.String(endpoint)
	b.Name("body")
	b.Raw(body)
	b.Close('}')
	return b.Bytes()
}

// appendShortLine appends a line with custom_id and body only.
func appendShortLine(dst []byte, name, key, member string, body []byte) []byte {
	b := jsonedit.AppendLine(dst)
	b.Open('{')
	b.Name(name)
	b.String(key)
	b.Name(member)
	b.Raw(body)
	b.Close('}')
	return b.Bytes()
}
