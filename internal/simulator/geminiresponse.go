package simulator

import "strconv"

var geminiStops = [stopCount]string{"STOP", "MAX_TOKENS", "STOP", "STOP", "SAFETY"}

// tinyImage is an image of one pixel.
const tinyImage = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// appendPart appends a part of the content; text is the piece of it to send.
// signed is true if the part has a signature.
func (x *exchange) appendPart(dst []byte, p *part, text []byte, signed bool) []byte {
	switch p.kind {
	case partThinking:
		dst = append(append(append(dst, `{"text":"`...), text...), `","thought":true`...)
	case partCall:
		dst = append(dst, `{"functionCall":{`...)
		if !x.vertex() {
			dst = appendAll(dst, `"id":"`, p.call.id, `",`)
		}
		dst = appendAll(dst, `"name":"`, string(p.call.name), `","args":`, plainText(p.call.arguments), `}`)
	case partImage:
		dst = append(dst, `{"inlineData":{"mimeType":"image/png","data":"`+tinyImage+`"}`...)
	default:
		dst = append(append(append(dst, `{"text":"`...), text...), '"')
	}
	if signed {
		name := "text"
		if p.kind == partCall {
			name = plainText(p.call.name)
		}
		dst = appendAll(dst, `,"thoughtSignature":"`, signature("google", name), `"`)
	}
	return append(dst, '}')
}

// signedAt returns the index of the part with the signature: the first call, or
// the last text, if the response begins with thinking.
func (a *response) signedAt() int {
	if a.thought == 0 {
		return -1
	}
	at := -1
	for i := range a.parts {
		if a.parts[i].kind == partCall {
			return i
		}
		if a.parts[i].kind == partText {
			at = i
		}
	}
	return at
}

// appendGeminiTail ends a response after the content of its candidates.
func (x *exchange) appendGeminiTail(dst []byte, a *response, output int) []byte {
	dst = append(dst, `,"index":0}]`...)
	if !x.plan.noUsage {
		thought := min(a.thought, output)
		dst = appendAll(dst, `,"usageMetadata":{"promptTokenCount":`, itoa(x.prompt), `,"candidatesTokenCount":`, itoa(output-thought),
			`,"totalTokenCount":`, itoa(x.prompt+output))
		if thought > 0 {
			dst = appendAll(dst, `,"thoughtsTokenCount":`, itoa(thought))
		}
		if x.plan.cached > 0 {
			dst = appendAll(dst, `,"cachedContentTokenCount":`, itoa(x.plan.cached))
		}
		dst = appendAll(dst, `,"promptTokensDetails":[{"modality":"TEXT","tokenCount":`, itoa(x.prompt), `}]}`)
	}
	dst = append(append(dst, `,"modelVersion":"`...), x.rawName...)
	return appendAll(dst, `","responseId":"sim`, x.idText(), `"}`)
}

func (a *response) appendGeminiFinish(dst []byte) []byte {
	dst = appendAll(dst, `"finishReason":"`, geminiStops[a.stop], `"`)
	if a.stop == stopRefusal {
		dst = append(dst, `,"safetyRatings":[{"category":"HARM_CATEGORY_DANGEROUS_CONTENT","probability":"HIGH","blocked":true}]`...)
	}
	return dst
}

// appendGemini appends the complete response. A refusal has no content.
func (x *exchange) appendGemini(dst []byte, a *response) []byte {
	dst = append(dst, `{"candidates":[{`...)
	if a.stop != stopRefusal {
		dst = append(dst, `"content":{"role":"model","parts":[`...)
		signed := a.signedAt()
		for i := range a.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = x.appendPart(dst, &a.parts[i], a.parts[i].text, i == signed)
		}
		dst = append(dst, `]},`...)
	}
	return x.appendGeminiTail(a.appendGeminiFinish(dst), a, a.tokens)
}

// streamGemini sends the response as responses with a piece each: texts in small
// pieces, calls complete. The last one has the finish reason.
func (x *exchange) streamGemini(t *stream, a *response) {
	signed := a.signedAt()
	if a.parts[0].kind != partThinking {
		x.served += a.thought // not sent
	}
	for i := range a.parts {
		p := &a.parts[i]
		if a.stop == stopRefusal && p.kind == partRefusal {
			x.served += p.tokens()
			continue
		}
		if !x.geminiPart(t, p, i == signed) {
			return
		}
	}
	if x.plan.noDone {
		return
	}
	t.last = true
	b := append(t.named(""), `{"candidates":[{`...)
	if a.stop != stopRefusal {
		b = append(b, `"content":{"role":"model","parts":[{"text":""`...)
		if signed >= 0 && a.parts[signed].kind == partText {
			b = appendAll(b, `,"thoughtSignature":"`, signature("google", "text"), `"`)
		}
		b = append(b, `}]},`...)
	}
	t.send(x.appendGeminiTail(a.appendGeminiFinish(b), a, a.tokens))
}

// geminiPart sends a part. A call has its signature with it; the signature of a
// text is sent at the end of the stream.
func (x *exchange) geminiPart(t *stream, p *part, signed bool) bool {
	send := func(text []byte, signed bool) bool {
		b := append(t.named(""), `{"candidates":[{"content":{"role":"model","parts":[`...)
		b = append(x.appendPart(b, p, text, signed), `]}`...)
		return t.send(x.appendGeminiPiece(b))
	}
	if p.kind == partCall || p.kind == partImage {
		x.served += p.tokens()
		return send(nil, signed)
	}
	return x.pieces(p.text, func(piece []byte) bool { return send(piece, false) })
}

// appendGeminiPiece ends a response in the middle of a stream.
func (x *exchange) appendGeminiPiece(dst []byte) []byte {
	dst = append(dst, `,"index":0}]`...)
	if !x.plan.noUsage {
		dst = append(dst, `,"usageMetadata":{"promptTokenCount":`...)
		dst = strconv.AppendInt(dst, int64(x.prompt), 10)
		dst = append(dst, `,"totalTokenCount":`...)
		dst = append(strconv.AppendInt(dst, int64(x.prompt), 10), '}')
	}
	dst = append(append(dst, `,"modelVersion":"`...), x.rawName...)
	return append(x.appendID(append(dst, `","responseId":"sim`...)), `"}`...)
}
