package simulator

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// findSocket returns the service of a WebSocket connection, the zero service for another path.
func findSocket(method, path string) service {
	if method != http.MethodGet {
		return service{}
	}
	switch path {
	case "/realtime", "/realtime/translations":
		return service{serveRealtime, nil}
	case "/live/sessions":
		return service{serveFrames, nil}
	case "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent":
		return service{serveLive, nil}
	}
	return service{}
}

// realtimeFaults are the faults of WebSocket connections, which follow the name of the model,
// each after a plus sign.
//
//	status=N  the handshake is refused with this status
//	no-pong   pings are not answered
//	stall     nothing is read after the handshake
//	close=N   the connection is closed with this code after the first message; 0 has no code
//	drop      the connection is dropped after the first message, without a close frame
//	huge=N    the first message is answered with one of N bytes
//	silent    a response begins and does not end
type realtimeFaults struct {
	status, code, huge            int
	mute, stall, drop, ends, hold bool
}

func readRealtimeFaults(model string) (f realtimeFaults) {
	_, rest, _ := strings.Cut(model, "+")
	for word := range strings.SplitSeq(rest, "+") {
		name, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "status":
			f.status = n
		case "no-pong":
			f.mute = true
		case "stall":
			f.stall = true
		case "close":
			f.code, f.ends = n, true
		case "drop":
			f.drop = true
		case "huge":
			f.huge = n
		case "silent":
			f.hold = true
		}
	}
	return f
}

// realtimeSession is a session of the realtime protocol, or of the live protocol of gemini.
type realtimeSession struct {
	*socket
	faults  realtimeFaults
	session map[string]any
	turns   int
	call    *realtimeCall // nil for a session of its own
}

// serveRealtime answers GET /realtime.
// https://platform.openai.com/docs/api-reference/realtime-server-events
func serveRealtime(x *exchange) {
	if id := x.r.URL.Query().Get("call_id"); id != "" {
		serveJoin(x, id)
		return
	}
	model := x.r.URL.Query().Get("model")
	x.model = []byte(model)
	s := &realtimeSession{faults: readRealtimeFaults(model)}
	switch {
	case s.faults.status != 0:
		x.refuse(s.faults.status, providerError{kind: "invalid_request_error", message: "The session was refused."})
		return
	case strings.Contains(x.r.Header.Get("Openai-Beta"), "realtime"):
		x.refuse(http.StatusBadRequest, providerError{kind: "invalid_request_error",
			message: "The beta of the Realtime API is no longer supported."})
		return
	case model == "" && !x.r.URL.Query().Has("intent"):
		x.refuse(http.StatusBadRequest, providerError{kind: "invalid_request_error", message: "You must provide a model parameter."})
		return
	}
	if s.socket = x.upgrade(); s.socket == nil {
		return
	}
	defer s.conn.Close()
	s.mute = s.faults.mute
	kind := "realtime"
	if intent := x.r.URL.Query().Get("intent"); intent != "" {
		kind = intent
	}
	s.session = map[string]any{"object": "realtime.session", "id": "sess_sim", "type": kind, "model": model}
	s.send(map[string]any{"type": "session.created", "session": s.session})
	s.serve(x, s.event)
}

// serveLive answers the live protocol of gemini.
// https://ai.google.dev/api/live
func serveLive(x *exchange) {
	s := &realtimeSession{}
	if s.socket = x.upgrade(); s.socket == nil {
		return
	}
	defer s.conn.Close()
	s.serve(x, s.liveMessage)
}

// serveFrames answers a protocol of which nothing is known: each message is sent back.
func serveFrames(x *exchange) {
	s := &realtimeSession{faults: readRealtimeFaults(x.r.URL.Query().Get("model"))}
	if s.socket = x.upgrade(); s.socket == nil {
		return
	}
	defer s.conn.Close()
	s.serve(x, func(op byte, message []byte) { s.write(op, message) })
}

// serve answers messages until the connection ends.
func (s *realtimeSession) serve(x *exchange, answer func(op byte, message []byte)) {
	if s.faults.stall {
		<-x.r.Context().Done()
		return
	}
	for {
		op, message, err := s.read()
		if err != nil {
			return
		}
		switch {
		case s.faults.drop:
			return
		case s.faults.ends:
			s.close(s.faults.code, "as asked")
			s.read()
			return
		case s.faults.huge > 0:
			s.write(frameText, bytes.Repeat([]byte("x"), s.faults.huge))
			continue
		}
		answer(op, message)
	}
}

func (s *realtimeSession) send(event map[string]any) {
	s.turns++
	event["event_id"] = "event_" + strconv.Itoa(s.turns)
	text, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	if s.call != nil {
		s.call.send(text)
		return
	}
	s.write(frameText, text)
}

// event answers an event of a client.
func (s *realtimeSession) event(op byte, message []byte) {
	if op == frameBinary { // not of the protocol: shows what arrives
		s.write(frameBinary, message)
		return
	}
	var e map[string]any
	if err := json.Unmarshal(message, &e); err != nil {
		s.fail("invalid_json", "The event is not JSON.")
		return
	}
	switch e["type"] {
	case "session.update":
		update, _ := e["session"].(map[string]any)
		maps.Copy(s.session, update)
		s.send(map[string]any{"type": "session.updated", "session": s.session})
	case "conversation.item.create":
		s.send(map[string]any{"type": "conversation.item.added", "item": e["item"]})
		s.send(map[string]any{"type": "conversation.item.done", "item": e["item"]})
	case "input_audio_buffer.append":
	case "input_audio_buffer.commit":
		s.send(map[string]any{"type": "input_audio_buffer.committed"})
		s.send(map[string]any{"type": "conversation.item.input_audio_transcription.completed", "transcript": "hello",
			"usage": map[string]any{"type": "tokens", "input_tokens": 20, "output_tokens": 3, "total_tokens": 23,
				"input_token_details": map[string]any{"text_tokens": 0, "audio_tokens": 20}}})
	case "response.create":
		s.respond()
	default:
		s.fail("invalid_event", "The type of the event is unknown.")
	}
}

func (s *realtimeSession) fail(code, message string) {
	s.send(map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "code": code, "message": message}})
}

// respond sends a response of text and audio.
func (s *realtimeSession) respond() {
	s.send(map[string]any{"type": "response.created", "response": map[string]any{"id": "resp_sim", "status": "in_progress"}})
	s.send(map[string]any{"type": "response.output_text.delta", "delta": "hello"})
	s.send(map[string]any{"type": "response.output_audio.delta", "delta": strings.Repeat("AAAA", 1600)})
	if s.faults.hold {
		return
	}
	s.send(map[string]any{"type": "response.done", "response": map[string]any{"id": "resp_sim", "status": "completed",
		"usage": map[string]any{"total_tokens": 253, "input_tokens": 132, "output_tokens": 121,
			"input_token_details": map[string]any{"text_tokens": 119, "audio_tokens": 13, "cached_tokens": 64,
				"cached_tokens_details": map[string]any{"text_tokens": 61, "audio_tokens": 3}},
			"output_token_details": map[string]any{"text_tokens": 30, "audio_tokens": 91}}}})
}

// liveMessage answers a message of the live protocol. Its messages are binary.
func (s *realtimeSession) liveMessage(_ byte, message []byte) {
	var m map[string]any
	if err := json.Unmarshal(message, &m); err != nil {
		s.close(1007, "Request contains an invalid argument.")
		return
	}
	switch {
	case m["setup"] != nil:
		s.write(frameBinary, []byte(`{"setupComplete":{}}`))
	case m["clientContent"] != nil:
		s.write(frameBinary, []byte(`{"serverContent":{"modelTurn":{"parts":[{"text":"hello"}]}}}`))
		s.write(frameBinary, []byte(`{"serverContent":{"turnComplete":true},"usageMetadata":{"promptTokenCount":10,"responseTokenCount":25,`+
			`"totalTokenCount":35,"promptTokensDetails":[{"modality":"TEXT","tokenCount":10}],"responseTokensDetails":[{"modality":"AUDIO","tokenCount":20},{"modality":"TEXT","tokenCount":5}]}}`))
	}
}
