package dialects

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/dialect/ollama"
	"modelgate/internal/dialect/oracle"
	"modelgate/internal/dialect/replicate"
	"modelgate/internal/dialect/responses"
)

// decoders and encoders are the codecs of both sides.
var (
	decoders = map[api.Dialect]dialect.ClientCodec{
		api.DialectChat: chat.Dialect{}, api.DialectMessages: messages.Dialect{}, api.DialectResponses: responses.Dialect{},
		api.DialectGemini: gemini.Dialect{}, api.DialectConverse: converse.Dialect{},
	}
	encoders = map[api.Dialect]dialect.ProviderCodec{
		api.DialectChat: chat.Dialect{}, api.DialectMessages: messages.Dialect{}, api.DialectResponses: responses.Dialect{},
		api.DialectGemini: gemini.Dialect{}, api.DialectConverse: converse.Dialect{}, api.DialectCohere: cohere.Dialect{},
		api.DialectOllama: ollama.Dialect{}, api.DialectOracle: oracle.Dialect{}, api.DialectReplicate: replicate.Dialect{},
	}
)

// A sample is a parameter with a value.
type sample struct {
	name  string // as the page has it
	patch string // what it adds to a request
	base  string // what it needs next to it, mostly nothing
	// unsaid are targets to which no report is required: they do anyway what is
	// asked for, or have nothing that it could change. Reviewed by hand.
	unsaid string
}

// merge puts the members of a patch into a body, objects within objects.
func merge(body, patch object) object {
	out := maps.Clone(body)
	for name, v := range patch {
		inner, is := v.(object)
		if old, was := out[name].(object); is && was {
			v = merge(old, inner)
		}
		out[name] = v
	}
	return out
}

func mustObject(t *testing.T, text string) object {
	t.Helper()
	m := object{}
	if text == "" {
		return m
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return m
}

// encoded is a client's body as a target gets it.
func encoded(t *testing.T, from api.Dialect, to *target, body object) ([]byte, []dialect.ParamChange, error) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := decoders[from].DecodeRequest(raw)
	if err != nil {
		return nil, nil, err
	}
	r.Model = to.model
	return encoders[to.dialect].EncodeRequest(nil, r, to.requestTarget())
}

// carried, in addition to the verdicts of the matrix, says that a parameter reaches the
// target as it is, and silent that it does not and that nothing is reported.
const (
	carried = "yes"
	silent  = "implied"
)

// fate is what happens to a sample, in the terms of the page.
func fate(t *testing.T, from api.Dialect, to *target, s *sample) string {
	t.Helper()
	if from == to.dialect {
		return "same"
	}
	base := merge(mustObject(t, bases[from]), mustObject(t, s.base))
	before, known, err := encoded(t, from, to, base)
	if err != nil {
		return refusedWord // it needs what is refused
	}
	after, fates, err := encoded(t, from, to, merge(base, mustObject(t, s.patch)))
	if err != nil {
		if _, ok := errors.AsType[*apierr.Error](err); !ok {
			t.Errorf("%s %s to %s: %v", from, s.name, to.dialect, err)
		}
		return refusedWord
	}
	fates = slices.DeleteFunc(fates, func(f dialect.ParamChange) bool { return slices.Contains(known, f) })
	if len(fates) > 0 {
		return told(fates)
	}
	if !bytes.Equal(before, after) {
		return carried
	}
	if !slices.Contains(strings.Fields(s.unsaid), string(to.dialect)) {
		t.Errorf("%s: %s changes nothing of what %s gets, and no fate says so: %s", from, s.name, to.dialect, after)
	}
	return silent
}

// told joins fates: the drops say all where there are any.
func told(fates []dialect.ParamChange) string {
	var notes []string
	for _, f := range fates {
		if f.Outcome == dialect.Dropped {
			return dropped
		}
		if f.Note != "" && !slices.Contains(notes, f.Note) {
			notes = append(notes, f.Note)
		}
	}
	return strings.TrimSuffix(adapted+": "+strings.Join(notes, "; "), ": ")
}

func TestEveryParameterHasAFate(t *testing.T) {
	for _, from := range clients {
		d := api.Dialect(from.name)
		for i := range samples[d] {
			for _, to := range targets {
				fate(t, d, to, &samples[d][i])
			}
		}
	}
}
