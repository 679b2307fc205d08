package socket

import (
	"bytes"
	"sync"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// observer reads the messages of a session: what turns used, and what the client asks for. Each
// direction has one goroutine.
type observer struct {
	protocol   Protocol
	fixed      *fixedSession // nil for none
	allowModel func(model string) error

	begun       bool   // the provider has begun the session
	model       string // of the session, as the provider reports it
	transcriber string // the model that transcribes input, as far as the provider reports it

	mu      sync.Mutex
	set     string // the model that the client has set; guarded by mu
	written size   // output of the turn in progress; used by the direction from the provider
}

// size is the size of output that has no usage yet.
type size struct{ text, audio int64 } // in bytes; audio as base64

// kindOf returns the type of an event without reading all of it: most have it first.
func kindOf(text []byte) []byte {
	c := jsonedit.NewCursor(text)
	if !c.Enter('{') {
		return nil
	}
	for {
		name, ok := c.Field()
		if !ok {
			return nil
		}
		if string(name) == "type" && c.Peek() == '"' {
			return c.Text()
		}
		c.Skip()
	}
}

// fromClient returns an error for a message that asks for more than the client may have.
func (o *observer) fromClient(text []byte) error {
	switch o.protocol {
	case Realtime:
		return o.checkEvent(text)
	case Live:
		return o.checkSetup(text)
	}
	return nil
}

// checkEvent checks an event of the realtime protocol, whatever type it has: an event may name
// two. Those without the words that rules are about are not read, as most are audio.
func (o *observer) checkEvent(text []byte) error {
	if !bytes.Contains(text, []byte("session")) && !bytes.Contains(text, []byte("model")) && !bytes.ContainsRune(text, '\\') {
		return nil
	}
	v, err := jsonedit.ParseValue(text)
	if err != nil {
		return apierr.New(apierr.Invalid, "the event is not valid JSON: %v", err).WithCode("invalid_json")
	}
	for name, member := range v.Fields() {
		switch name.String() {
		case "session":
			if err := o.checkSession(member); err != nil {
				return err
			}
		case "response":
			if err := o.checkModels(member); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSession checks the session that a client sets.
func (o *observer) checkSession(session jsonedit.Value) error {
	if err := o.checkModels(session); err != nil {
		return err
	}
	if o.fixed != nil {
		return o.fixed.check(session)
	}
	return nil
}

// checkModels checks the models in a session or a response, that which transcribes included.
func (o *observer) checkModels(of jsonedit.Value) error {
	for name, member := range of.Fields() {
		switch name.String() {
		case "model":
			if err := o.checkModel(member); err != nil {
				return err
			}
		case "audio", "input", "transcription", "input_audio_transcription":
			if err := o.checkModels(member); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *observer) checkModel(v jsonedit.Value) error {
	if v.IsNull() {
		return nil
	}
	model, ok := v.Text()
	if !ok {
		return apierr.New(apierr.Invalid, "the model must be a string").WithParam("session.model")
	}
	return o.allowModel(model)
}

// checkSetup checks the first message of the live protocol, which names the model.
func (o *observer) checkSetup(text []byte) error {
	if !bytes.Contains(text, []byte("setup")) && !bytes.ContainsRune(text, '\\') {
		return nil
	}
	v, err := jsonedit.ParseValue(text)
	if err != nil {
		return apierr.New(apierr.Invalid, "the message is not valid JSON: %v", err).WithCode("invalid_json")
	}
	for name, setup := range v.Fields() {
		if name.String() != "setup" {
			continue
		}
		for name, member := range setup.Fields() {
			if name.String() != "model" {
				continue
			}
			model, _ := member.Text()
			model = string(bytes.TrimPrefix([]byte(model), []byte("models/")))
			if err := o.allowModel(model); err != nil {
				return err
			}
			o.mu.Lock()
			o.set = model
			o.mu.Unlock()
		}
	}
	return nil
}

// sighting is what a message of the provider says of a session.
type sighting struct {
	turn    Turn // that ends; its usage is not Known if none ends
	begins  bool // a turn, if none is in progress
	session bool // the session begins
}

// fromProvider reads a message of the provider.
func (o *observer) fromProvider(text []byte) sighting {
	switch o.protocol {
	case Realtime:
		return o.readEvent(text)
	case Live:
		return o.readLive(text)
	}
	return sighting{}
}

func (o *observer) readEvent(text []byte) (seen sighting) {
	switch kind := string(kindOf(text)); kind {
	case "session.created", "transcription_session.created":
		seen.session, o.begun = !o.begun, true
		o.readSession(text)
	case "session.updated", "transcription_session.updated":
		o.readSession(text)
	case "response.created":
		seen.begins = true
	case "response.done":
		o.written = size{}
		seen.turn = Turn{Usage: realtimeUsage(member(text, "response", "usage")), Model: o.model}
	case "conversation.item.input_audio_transcription.completed":
		seen.turn = Turn{Usage: realtimeUsage(member(text, "usage")), Model: o.transcriber, Other: true}
	case "response.output_audio.delta", "response.audio.delta":
		o.written.audio += int64(len(text))
	case "response.output_text.delta", "response.text.delta", "response.function_call_arguments.delta":
		o.written.text += int64(len(member(text, "delta").Raw()))
	}
	return seen
}

func (o *observer) readSession(text []byte) {
	session := member(text, "session")
	if model := session.TextOf("model"); model != "" {
		o.model = model
	}
	audio, _ := session.Get("audio")
	input, _ := audio.Get("input")
	transcription, _ := input.Get("transcription")
	if transcription.Kind() != jsonedit.Object {
		transcription, _ = session.Get("input_audio_transcription")
	}
	o.transcriber = transcription.TextOf("model")
}

// member returns a nested member of a message, an invalid value if it is not there.
func member(text []byte, path ...string) jsonedit.Value {
	v, err := jsonedit.ParseValue(text)
	if err != nil {
		return jsonedit.Value{}
	}
	for _, name := range path {
		next, ok := v.Get(name)
		if !ok {
			return jsonedit.Value{}
		}
		v = next
	}
	return v
}

// count returns a number of tokens that a report has, 0 if it has none.
func count(v jsonedit.Value, path ...string) int64 {
	for _, name := range path {
		v, _ = v.Get(name)
	}
	n, ok := v.Int()
	if !ok || n < 0 {
		return 0
	}
	return n
}

// realtimeUsage reads a usage object of the realtime protocol. One in seconds has no tokens.
// https://platform.openai.com/docs/api-reference/realtime-server-events/response/done
func realtimeUsage(v jsonedit.Value) llm.Usage {
	if v.Kind() != jsonedit.Object {
		return llm.Usage{}
	}
	const in, cached = "input_token_details", "cached_tokens_details"
	u := llm.Usage{Known: true}
	u.CachedInput = count(v, in, "cached_tokens")
	u.InputAudio = max(count(v, in, "audio_tokens")-count(v, in, cached, "audio_tokens"), 0)
	u.InputImage = max(count(v, in, "image_tokens")-count(v, in, cached, "image_tokens"), 0)
	u.Input = max(count(v, "input_tokens")-u.CachedInput-u.InputAudio, 0)
	u.OutputAudio = count(v, "output_token_details", "audio_tokens")
	u.Output = max(count(v, "output_tokens")-u.OutputAudio, 0)
	return u
}

// readLive reads the usage of a message of the live protocol.
// https://ai.google.dev/api/live#UsageMetadata
func (o *observer) readLive(text []byte) (seen sighting) {
	seen.begins = bytes.Contains(text, []byte("modelTurn"))
	if !bytes.Contains(text, []byte("usageMetadata")) {
		if bytes.Contains(text, []byte("inlineData")) {
			o.written.audio += int64(len(text))
		}
		return seen
	}
	v := member(text, "usageMetadata")
	if v.Kind() != jsonedit.Object {
		return seen
	}
	o.written = size{}
	o.mu.Lock()
	defer o.mu.Unlock()
	u := llm.Usage{Known: true, CachedInput: count(v, "cachedContentTokenCount"), Reasoning: count(v, "thoughtsTokenCount")}
	u.InputAudio, u.InputImage = modality(v, "promptTokensDetails", "AUDIO"), modality(v, "promptTokensDetails", "IMAGE")
	u.Input = max(count(v, "promptTokenCount")+count(v, "toolUsePromptTokenCount")-u.CachedInput-u.InputAudio, 0)
	u.OutputAudio = modality(v, "responseTokensDetails", "AUDIO")
	u.Output = max(count(v, "responseTokenCount")-u.OutputAudio, 0)
	seen.turn = Turn{Usage: u, Model: o.set}
	return seen
}

// modality returns the tokens of a modality in a list of them.
func modality(v jsonedit.Value, list, name string) (n int64) {
	details, _ := v.Get(list)
	for one := range details.Elements() {
		if one.TextOf("modality") == name {
			n += count(one, "tokenCount")
		}
	}
	return n
}

const (
	// textBytes is the number of bytes of text that are estimated as a token, and audioBytes
	// that of audio in base64: a twentieth of a second of 24 kHz in 16 bits.
	// https://platform.openai.com/docs/guides/realtime-costs
	textBytes, audioBytes = 4, 3200
)

// unfinished returns an estimate of a turn whose end was not seen.
func (o *observer) unfinished() Turn {
	w := o.written
	if w == (size{}) {
		return Turn{}
	}
	return Turn{Model: o.model, Usage: llm.Usage{Known: true, Estimated: true,
		Output: (w.text + textBytes - 1) / textBytes, OutputAudio: (w.audio + audioBytes - 1) / audioBytes}}
}
