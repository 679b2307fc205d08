package simulator

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strconv"
)

// serveImages answers POST /images/generations with small images whose colour
// depends on the prompt.
func serveImages(x *exchange) {
	var (
		wrong          providerError
		prompt, format []byte
		n              = 1
	)
	member := func(s *scanner, key []byte) {
		switch string(key) {
		case "prompt":
			prompt = s.stringOf("prompt", &wrong)
		case "response_format":
			format = s.stringOf("response_format", &wrong)
		case "n":
			n = s.integerOf("n", 1, &wrong)
		default:
			s.skip()
		}
	}
	needed := func() providerError {
		switch {
		case len(prompt) == 0:
			return missing("prompt")
		case n < 1 || n > 10:
			return mistyped("n", "an integer from 1 to 10")
		}
		return providerError{}
	}
	if !x.readObject(&wrong, member, needed) {
		return
	}
	x.prompt, x.served = tokensOf(textLen(prompt)), n
	x.out = append(x.out[:0], `{"created":`+created+`,"data":[`...)
	for i := range n {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = x.appendImage(x.out, i, string(format) == "b64_json")
		x.out = append(append(append(x.out, `,"revised_prompt":"`...), prompt...), `"}`...)
	}
	x.out = append(x.out, ']')
	x.appendImageUsage(n)
	x.out = append(x.out, '}')
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// appendImageUsage appends the usage; an image is one token.
func (x *exchange) appendImageUsage(n int) {
	if x.plan.noUsage {
		return
	}
	x.out = strconv.AppendInt(append(x.out, `,"usage":{"input_tokens":`...), int64(x.prompt), 10)
	x.out = strconv.AppendInt(append(x.out, `,"output_tokens":`...), int64(n), 10)
	x.out = strconv.AppendInt(append(x.out, `,"total_tokens":`...), int64(x.prompt+n), 10)
	x.out = append(x.out, '}')
}

// appendImage appends an image object without its closing brace.
func (x *exchange) appendImage(dst []byte, index int, inline bool) []byte {
	id := x.id() + uint64(index)
	if !inline {
		dst = append(dst, `{"url":"https://images.simulator.invalid/`...)
		return append(strconv.AppendUint(dst, id, 16), `.png"`...)
	}
	dst = append(dst, `{"b64_json":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, picture(id)), '"')
}

func picture(id uint64) []byte {
	img := image.NewRGBA(image.Rect(0, 0, 8, 8))
	for i := range 64 {
		img.Set(i%8, i/8, color.RGBA{R: byte(id), G: byte(id >> 8), B: byte(id >> 16), A: 255})
	}
	var b bytes.Buffer
	if png.Encode(&b, img) != nil { // a small image always encodes
		return nil
	}
	return b.Bytes()
}
