package simulator

import (
	"io"
	"net/http"
)

// bytesPerLetter is the number of bytes of sound for a byte of text.
const bytesPerLetter = 256

// soundTypes are the content types of the audio formats.
var soundTypes = map[string]string{
	"": "audio/mpeg", "mp3": "audio/mpeg", "opus": "audio/opus", "aac": "audio/aac",
	"flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/pcm",
}

// serveSpeech answers POST /audio/speech with bytes in place of sound: 256 for
// each byte of text, those of [Bytes] with seed 0.
func serveSpeech(x *exchange) {
	var (
		wrong                providerError
		said, format, spoken []byte
	)
	member := func(s *scanner, key []byte) {
		switch string(key) {
		case "input":
			said = s.stringOf("input", &wrong)
		case "voice":
			spoken = s.raw()
		case "response_format":
			format = s.stringOf("response_format", &wrong)
		default:
			s.skip()
		}
	}
	needed := func() providerError {
		switch {
		case len(said) == 0:
			return missing("input")
		case len(spoken) == 0:
			return missing("voice")
		case soundTypes[string(format)] == "":
			return mistyped("response_format", "mp3, opus, aac, flac, wav or pcm")
		}
		return providerError{}
	}
	if !x.readObject(&wrong, member, needed) {
		return
	}
	if !x.needsModel() {
		return
	}
	x.prompt = tokensOf(textLen(said))
	x.sendSound(soundTypes[string(format)], int64(textLen(said))*bytesPerLetter)
}

func (x *exchange) sendSound(kind string, size int64) {
	if x.faulty {
		body, _ := io.ReadAll(Bytes(0, size)) // the generator does not fail
		x.sendBody(http.StatusOK, []string{kind}, body)
		return
	}
	x.w.Header().Set("Content-Type", kind)
	x.w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(x.w, Bytes(0, size)); err != nil {
		x.recordDisconnect()
	}
}

// serveTranscript answers POST /audio/transcriptions and translations with a
// description of the upload: the file's name, size and SHA-256.
func serveTranscript(x *exchange) {
	up, ok := x.readUpload(0)
	if !ok {
		return
	}
	if !x.begin(appendRaw(nil, up.fields["model"])) {
		return
	}
	switch {
	case up.name == "":
		x.refuse(http.StatusBadRequest, missing("file"))
		return
	case len(x.model) == 0:
		x.refuse(http.StatusBadRequest, missing("model"))
		return
	}
	x.prompt = tokensOf(int(up.size))
	said := up.describe()
	x.served = tokensOf(len(said))
	switch {
	case x.plan.streams(up.fields["stream"] == "true"):
		x.streamTranscript(said)
	case up.fields["response_format"] == "text":
		x.sendBody(http.StatusOK, []string{"text/plain; charset=utf-8"}, []byte(said+"\n"))
	default:
		x.out = append(appendRaw(append(x.out[:0], `{"text":"`...), said), `","file":`...)
		x.out = append(up.appendJSON(x.out), '}')
		x.sendBody(http.StatusOK, typeJSON, x.out)
	}
}

// streamTranscript sends the text word by word, in events of the audio API,
// which has no [DONE].
func (x *exchange) streamTranscript(said string) {
	t, ok := x.openStream()
	if !ok {
		return
	}
	raw := appendRaw(nil, said)
	x.plan.noDone = true
	for at := 0; at < len(raw); {
		to, _ := advance(raw, at, 4*bytesPerToken)
		b := append(t.frame(), `{"type":"transcript.text.delta","delta":"`...)
		if !t.send(append(append(b, raw[at:to]...), `"}`...)) {
			t.close()
			return
		}
		at = to
	}
	b := append(t.frame(), `{"type":"transcript.text.done","text":"`...)
	t.send(append(append(b, raw...), `"}`...))
	t.close()
}
