package simulator

import "time"

// faultTable lists all faults in the order of the documentation.
var faultTable = []faultSpec{
	// The form of the response, also after the faults are over.
	{Fault{"tokens", "tokens=N", "the response is exactly N tokens of 4 bytes long"},
		integerParam(1, 1<<24, func(p *plan) *int { return &p.tokens })},
	{Fault{"size", "size=N", "each frame of a stream carries N bytes of text"}, integerParam(1, 1<<20, func(p *plan) *int { return &p.size })},
	{Fault{"pace", "pace=10ms", "delay before each frame of a stream except the first"}, setPace},
	{Fault{"report", "report", "the response is a JSON object that describes the request"}, flag(func(p *plan) *bool { return &p.report })},
	{Fault{"thinking", "thinking=N", "the response begins with N tokens of thinking, signed if the format has signatures"},
		integerParam(1, 1<<20, func(p *plan) *int { return &p.thinking })},
	{Fault{"refusal", "refusal", "the response is a refusal in the format's own shape"}, flag(func(p *plan) *bool { return &p.refusal })},
	{Fault{"calls", "calls=N", "N calls of the offered tools, in turn"}, integerParam(1, 64, func(p *plan) *int { return &p.calls })},
	{Fault{"call-ids", "call-ids=N", "ids of calls have N characters; except in messages and converse, some that these formats refuse"},
		integerParam(16, 4096, func(p *plan) *int { return &p.callIDs })},
	{Fault{"preface", "preface", "text before the tool calls"}, flag(func(p *plan) *bool { return &p.preface })},
	{Fault{"interleave", "interleave", "the arguments of tool calls are interleaved, in streams of chat and responses"},
		flag(func(p *plan) *bool { return &p.interleave })},
	{Fault{"cached", "cached=N", "N further tokens of the prompt were read from the cache"},
		integerParam(0, 1<<30, func(p *plan) *int { return &p.cached })},
	{Fault{"cache-write", "cache-write=N", "N further tokens of the prompt were written to the cache"},
		integerParam(0, 1<<30, func(p *plan) *int { return &p.written })},
	{Fault{"image", "image", "an image after the text (gemini only)"}, flag(func(p *plan) *bool { return &p.image })},
	{Fault{"generated", "generated", "an uploaded file can be downloaded, as if a tool had made it (messages and gemini)"},
		flag(func(p *plan) *bool { return &p.generated })},
	{Fault{"reads", "reads=N", "a batch, a job or a response in the background changes its state after every N reads of it; the default is 1"},
		integerParam(1, 1<<20, func(p *plan) *int { return &p.reads })},
	{Fault{"takes", "takes=2s", "it changes its state by time instead, and ends this long after its creation"}, setTakes},

	// To which calls the faults apply.
	{Fault{"times", "times=N", "the faults apply to the first N calls of this model name; later calls succeed"},
		integerParam(1, 1<<30, func(p *plan) *int { return &p.times })},
	{Fault{"every", "every=N", "the faults apply to every Nth call of this model name"},
		integerParam(1, 1<<30, func(p *plan) *int { return &p.every })},
	{Fault{"flap", "flap=10s", "the faults are on for this time, then off for as long, starting with the first call"},
		delay(func(p *plan) *time.Duration { return &p.flap })},
	{Fault{"quota", "quota=N@NAME", "429 after N calls; names with the same NAME share the quota"}, setQuota},

	// Instead of a response.
	{Fault{"status", "status=429", "an error of this status (300 to 599) in the provider's shape"},
		integerParam(300, 599, func(p *plan) *int { return &p.status })},
	{Fault{"retry-after", "retry-after=2", "Retry-After on the response, seconds or a date"},
		text(func(p *plan) *string { return &p.retryAfter })},
	{Fault{"retry-after-ms", "retry-after-ms=250", "Retry-After-Ms on the response"}, text(func(p *plan) *string { return &p.retryAfterMS })},
	{Fault{"context-length", "context-length", "400 context_length_exceeded, or the format's equivalent"},
		flag(func(p *plan) *bool { return &p.contextLength })},
	{Fault{"content-filter", "content-filter", "400 content_filter, or the format's equivalent"},
		flag(func(p *plan) *bool { return &p.contentFilter })},
	{Fault{"model-not-found", "model-not-found", "404 model_not_found, or the format's equivalent"},
		flag(func(p *plan) *bool { return &p.modelNotFound })},
	{Fault{"no-prefill", "no-prefill", "400 if the last message is the assistant's"}, flag(func(p *plan) *bool { return &p.noPrefill })},
	{Fault{"turns", "turns=reply",
		"400 for roles and an order of messages that providers reject: system (no developer), reply (also no user after a tool, no end without prefix) or alternate (also two of a role); chat only"}, word(func(p *plan) *string {
		return &p.turns
	}, "system", "reply", "alternate")},
	{Fault{"redirect", "redirect=URL", "302 to the URL"}, text(func(p *plan) *string { return &p.redirect })},
	{Fault{"html", "html", "200 with a page of text/html"}, flag(func(p *plan) *bool { return &p.html })},
	{Fault{"html-error", "html-error=502", "a page of text/html with this status"}, setHTMLError},
	{Fault{"reset", "reset", "the connection is reset before any header"}, flag(func(p *plan) *bool { return &p.reset })},
	{Fault{"hang", "hang", "accepts the request and never responds"}, flag(func(p *plan) *bool { return &p.hang })},
	{Fault{"huge", "huge=100MB", "a valid response of this many bytes; in a stream, one frame of this size"}, setHuge},
	{Fault{"gzip-bomb", "gzip-bomb", "about 1 MiB of gzip that decodes to a valid response of 1 GiB"},
		flag(func(p *plan) *bool { return &p.gzipBomb })},

	// Stored objects.
	{Fault{"job", "job=MODE",
		"a batch or a job hangs while it is running (hang), fails as if its first line were invalid (fail), expires with half of its results (expire) or is cancelled slowly (slow-cancel)"},
		word(func(p *plan) *string { return &p.job }, jobHangs, jobFails, jobExpires, jobSlowCancels)},
	{Fault{"lost", "lost", "the object is stored, and the connection is reset instead of a response"},
		flag(func(p *plan) *bool { return &p.lost })},
	{Fault{"half-content", "half-content", "the content of an uploaded file, or of files with results of a batch, is cut half way"},
		flag(func(p *plan) *bool { return &p.halfContent })},
	{Fault{"odd-results", "odd-results", "the first line of the results of a batch in a bucket is missing, and the last one is doubled"},
		flag(func(p *plan) *bool { return &p.oddResults })},

	// Slowness.
	{Fault{"headers", "headers=20s", "delay before the headers"}, delay(func(p *plan) *time.Duration { return &p.headers })},
	{Fault{"first", "first=20s", "delay after the headers, before the first frame or byte"},
		delay(func(p *plan) *time.Duration { return &p.first })},
	{Fault{"stall", "stall=30s@10", "delay before frame 10 (byte 10 of a complete response)"}, setStall},

	// Broken streams. Frames are counted from 1, the role frame included.
	{Fault{"cut", "cut=40", "reset after 40 frames (bytes of a complete response); cut=40,clean ends cleanly there"}, setCut},
	{Fault{"malformed", "malformed=5", "frame 5 is broken JSON"}, integerParam(1, 1<<30, func(p *plan) *int { return &p.malformed })},
	{Fault{"error-event", "error-event=5", "frame 5 is an error, and the stream ends there"},
		integerParam(1, 1<<30, func(p *plan) *int { return &p.errorEvent })},
	{Fault{"bad-crc", "bad-crc=5", "frame 5 of a binary stream has a wrong checksum"},
		integerParam(1, 1<<30, func(p *plan) *int { return &p.badCRC })},
	{Fault{"torn", "torn=5", "the stream ends cleanly in the middle of frame 5"},
		integerParam(1, 1<<30, func(p *plan) *int { return &p.torn })},
	{Fault{"no-done", "no-done",
		"no end of the stream: [DONE], message_stop, response.completed, message-end, messageStop or the frame with the finish reason"},
		flag(func(p *plan) *bool { return &p.noDone })},
	{Fault{"no-usage", "no-usage", "no usage figures"}, flag(func(p *plan) *bool { return &p.noUsage })},
	{Fault{"no-blank", "no-blank", "no blank line after the last event, no line end after the last line of JSON"},
		flag(func(p *plan) *bool { return &p.noBlank })},
	{Fault{"crlf", "crlf", "lines of a stream end in CR LF"}, flag(func(p *plan) *bool { return &p.crlf })},
	{Fault{"comments", "comments", "a comment line before each server-sent event"}, flag(func(p *plan) *bool { return &p.comments })},
	{Fault{"bom", "bom", "a stream of server-sent events begins with a byte order mark"}, flag(func(p *plan) *bool { return &p.bom })},
	{Fault{"event-first", "event-first", "an event: line before each data: line that has none"},
		flag(func(p *plan) *bool { return &p.eventLine })},
	{Fault{"json-for-stream", "json-for-stream", "one JSON body instead of a stream"}, flag(func(p *plan) *bool { return &p.jsonForStream })},
	{Fault{"sse-for-json", "sse-for-json", "a stream instead of one JSON body"}, flag(func(p *plan) *bool { return &p.sseForJSON })},

	// Unusual or invalid HTTP.
	{Fault{"gzip", "gzip", "the response in gzip, unrequested"}, flag(func(p *plan) *bool { return &p.gzip })},
	{Fault{"length", "length=+10", "Content-Length is wrong by this many bytes (+10 or -10)"}, setLength},
	{Fault{"duplicate-length", "duplicate-length", "two Content-Length headers that disagree"},
		flag(func(p *plan) *bool { return &p.duplicateLength })},
	{Fault{"smuggle", "smuggle", "Content-Length together with chunked, followed by a forged second response"},
		flag(func(p *plan) *bool { return &p.smuggle })},
	{Fault{"early-hints", "early-hints", "103 Early Hints before the response"}, flag(func(p *plan) *bool { return &p.earlyHints })},
	{Fault{"trailers", "trailers", "a trailer X-Simulator-Trailer after the body"}, flag(func(p *plan) *bool { return &p.trailers })},
	{Fault{"content-type", "content-type=T", "the response has this Content-Type"}, text(func(p *plan) *string { return &p.contentType })},
	{Fault{"set-cookie", "set-cookie", "a Set-Cookie header on the response; set-cookie=NAME%3DVALUE chooses the cookie"}, setCookie},
	{Fault{"header", "header=NAME:VALUE", "another header on the response"}, setHeader},
}

func setCookie(p *plan, value string) error {
	if value == "" {
		value = "simulator=1; Path=/; HttpOnly"
	}
	return text(func(p *plan) *string { return &p.cookie })(p, value)
}
