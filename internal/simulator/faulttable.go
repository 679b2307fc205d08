package simulator

import "time"

// faultTable holds every fault; the order is that of the documentation.
var faultTable = []faultSpec{
	// How the answer looks, also when the faults are over.
	{Fault{"tokens", "tokens=N", "the answer is exactly N tokens of 4 bytes long"}, integerParam(1, 1<<24, func(p *plan) *int { return &p.tokens })},
	{Fault{"size", "size=N", "each frame of a stream carries N bytes of text"}, integerParam(1, 1<<20, func(p *plan) *int { return &p.size })},
	{Fault{"pace", "pace=10ms", "delay before each frame of a stream but the first"}, setPace},
	{Fault{"report", "report", "the answer is a JSON object that says what the request held"}, flag(func(p *plan) *bool { return &p.report })},
	{Fault{"thinking", "thinking=N", "the answer begins with N tokens of thinking, signed where the protocol has signatures"}, integerParam(1, 1<<20, func(p *plan) *int { return &p.thinking })},
	{Fault{"refusal", "refusal", "the answer is a refusal in the form of the protocol"}, flag(func(p *plan) *bool { return &p.refusal })},
	{Fault{"calls", "calls=N", "N tool calls, of the offered tools in turn"}, integerParam(1, 64, func(p *plan) *int { return &p.calls })},
	{Fault{"preface", "preface", "a text before the tool calls"}, flag(func(p *plan) *bool { return &p.preface })},
	{Fault{"interleave", "interleave", "the arguments of tool calls come in turns, in streams of chat and responses"}, flag(func(p *plan) *bool { return &p.interleave })},
	{Fault{"cached", "cached=N", "N further tokens of the prompt were read from the cache"}, integerParam(0, 1<<30, func(p *plan) *int { return &p.cached })},
	{Fault{"cache-write", "cache-write=N", "N further tokens of the prompt were written to the cache"}, integerParam(0, 1<<30, func(p *plan) *int { return &p.written })},
	{Fault{"image", "image", "an image at the end of the answer (gemini alone)"}, flag(func(p *plan) *bool { return &p.image })},

	// To which calls the faults apply.
	{Fault{"times", "times=N", "the faults hold for the first N calls of this name, then the plain answer"}, integerParam(1, 1<<30, func(p *plan) *int { return &p.times })},
	{Fault{"every", "every=N", "the faults hold for every Nth call of this name"}, integerParam(1, 1<<30, func(p *plan) *int { return &p.every })},
	{Fault{"flap", "flap=10s", "the faults come and go: so long on, so long off, from the first call"}, delay(func(p *plan) *time.Duration { return &p.flap })},
	{Fault{"quota", "quota=N@NAME", "429 after N calls; names with the same NAME share the quota"}, setQuota},

	// Instead of an answer.
	{Fault{"status", "status=429", "an error of this status (300 to 599) in the provider's shape"}, integerParam(300, 599, func(p *plan) *int { return &p.status })},
	{Fault{"retry-after", "retry-after=2", "Retry-After on the answer, seconds or a date"}, text(func(p *plan) *string { return &p.retryAfter })},
	{Fault{"retry-after-ms", "retry-after-ms=250", "Retry-After-Ms on the answer"}, text(func(p *plan) *string { return &p.retryAfterMS })},
	{Fault{"context-length", "context-length", "400 context_length_exceeded, or what the protocol says for it"}, flag(func(p *plan) *bool { return &p.contextLength })},
	{Fault{"content-filter", "content-filter", "400 content_filter, or what the protocol says for it"}, flag(func(p *plan) *bool { return &p.contentFilter })},
	{Fault{"model-not-found", "model-not-found", "404 model_not_found, or what the protocol says for it"}, flag(func(p *plan) *bool { return &p.modelNotFound })},
	{Fault{"no-prefill", "no-prefill", "400 when the last message is the assistant's"}, flag(func(p *plan) *bool { return &p.noPrefill })},
	{Fault{"redirect", "redirect=URL", "302 to the URL"}, text(func(p *plan) *string { return &p.redirect })},
	{Fault{"html", "html", "200 with a page of text/html"}, flag(func(p *plan) *bool { return &p.html })},
	{Fault{"html-error", "html-error=502", "a page of text/html with this status"}, setHTMLError},
	{Fault{"reset", "reset", "the connection is reset before any header"}, flag(func(p *plan) *bool { return &p.reset })},
	{Fault{"hang", "hang", "accepts the request and never answers"}, flag(func(p *plan) *bool { return &p.hang })},
	{Fault{"huge", "huge=100MB", "a sound answer of this many bytes; in a stream one frame of them"}, setHuge},
	{Fault{"gzip-bomb", "gzip-bomb", "about 1 MiB of gzip that decodes to a sound answer of 1 GiB"}, flag(func(p *plan) *bool { return &p.gzipBomb })},

	// Slowness.
	{Fault{"headers", "headers=20s", "delay before the headers"}, delay(func(p *plan) *time.Duration { return &p.headers })},
	{Fault{"first", "first=20s", "delay after the headers, before the first frame or byte"}, delay(func(p *plan) *time.Duration { return &p.first })},
	{Fault{"stall", "stall=30s@10", "delay before frame 10 (byte 10 of a plain answer)"}, setStall},

	// Broken streams. Frames are counted from 1, the role frame included.
	{Fault{"cut", "cut=40", "reset after 40 frames (bytes of a plain answer); cut=40,clean ends cleanly there"}, setCut},
	{Fault{"malformed", "malformed=5", "frame 5 is broken JSON"}, integerParam(1, 1<<30, func(p *plan) *int { return &p.malformed })},
	{Fault{"error-event", "error-event=5", "frame 5 is an error, and the stream ends there"}, integerParam(1, 1<<30, func(p *plan) *int { return &p.errorEvent })},
	{Fault{"bad-crc", "bad-crc=5", "frame 5 of a binary stream has a wrong checksum"}, integerParam(1, 1<<30, func(p *plan) *int { return &p.badCRC })},
	{Fault{"torn", "torn=5", "frame 5 ends in its middle, and the stream with it, cleanly"}, integerParam(1, 1<<30, func(p *plan) *int { return &p.torn })},
	{Fault{"no-done", "no-done", "no end of a stream: [DONE], message_stop, response.completed, message-end, messageStop or the frame with the finish reason"}, flag(func(p *plan) *bool { return &p.noDone })},
	{Fault{"no-usage", "no-usage", "no usage figures"}, flag(func(p *plan) *bool { return &p.noUsage })},
	{Fault{"no-blank", "no-blank", "no blank line after the last event, no line end after the last line of JSON"}, flag(func(p *plan) *bool { return &p.noBlank })},
	{Fault{"crlf", "crlf", "lines of a stream end in CR LF"}, flag(func(p *plan) *bool { return &p.crlf })},
	{Fault{"comments", "comments", "a comment line before each server-sent event"}, flag(func(p *plan) *bool { return &p.comments })},
	{Fault{"bom", "bom", "a stream of server-sent events begins with a byte order mark"}, flag(func(p *plan) *bool { return &p.bom })},
	{Fault{"event-first", "event-first", "an event: line before each data: line that has none"}, flag(func(p *plan) *bool { return &p.eventLine })},
	{Fault{"json-for-stream", "json-for-stream", "one JSON body where a stream was asked for"}, flag(func(p *plan) *bool { return &p.jsonForStream })},
	{Fault{"sse-for-json", "sse-for-json", "a stream where one JSON body was asked for"}, flag(func(p *plan) *bool { return &p.sseForJSON })},

	// HTTP that is odd or wrong.
	{Fault{"gzip", "gzip", "the answer in gzip although nobody asked"}, flag(func(p *plan) *bool { return &p.gzip })},
	{Fault{"length", "length=+10", "Content-Length is wrong by so many bytes (+10 or -10)"}, setLength},
	{Fault{"duplicate-length", "duplicate-length", "two Content-Length headers that disagree"}, flag(func(p *plan) *bool { return &p.duplicateLength })},
	{Fault{"smuggle", "smuggle", "Content-Length beside chunked, and a forged second answer behind"}, flag(func(p *plan) *bool { return &p.smuggle })},
	{Fault{"early-hints", "early-hints", "103 Early Hints before the answer"}, flag(func(p *plan) *bool { return &p.earlyHints })},
	{Fault{"trailers", "trailers", "a trailer X-Simulator-Trailer after the body"}, flag(func(p *plan) *bool { return &p.trailers })},
	{Fault{"content-type", "content-type=T", "the answer says it is of this Content-Type"}, text(func(p *plan) *string { return &p.contentType })},
	{Fault{"set-cookie", "set-cookie", "a Set-Cookie header on the answer; set-cookie=NAME%3DVALUE names it"}, setCookie},
	{Fault{"header", "header=NAME:VALUE", "a further header on the answer"}, setHeader},
}

func setCookie(p *plan, value string) error {
	if value == "" {
		value = "simulator=1; Path=/; HttpOnly"
	}
	return text(func(p *plan) *string { return &p.cookie })(p, value)
}
