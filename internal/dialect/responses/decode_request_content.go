package responses

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// partMark begins the type of a Native that is a part of message content rather
// than an item.
const partMark = "part:"

// content reads the content of a message or the output of a tool: a string or
// an array of parts. at is the path of the member that holds it.
func (q *requestDecoder) content(v jsonedit.Value, at string) []llm.Part {
	switch v.Kind() {
	case jsonedit.String:
		text, _ := v.Text()
		return []llm.Part{llm.Text{Text: text}}
	case jsonedit.Null:
		return nil
	case jsonedit.Array:
	default:
		q.RefuseKind(at+".content", "a string or an array of parts", v)
		return nil
	}
	var parts []llm.Part
	for path, e := range q.Elements(at+".content", v) {
		if p := q.part(e, path); p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

func (q *requestDecoder) part(v jsonedit.Value, at string) llm.Part {
	if !q.Is(at, v, jsonedit.Object, "an object") {
		return nil
	}
	switch typ := q.needed(v, at, "type"); typ {
	case "input_text", "output_text", "text":
		q.LoseUnknown(at, v, "type", "text", "annotations", "logprobs", "cache_control", "prompt_cache_breakpoint")
		return llm.Text{Text: q.member(v, at, "text"), Citations: citations(v), Cache: q.cacheOf(v, at)}
	case "refusal":
		q.LoseUnknown(at, v, "type", "refusal")
		return llm.Refusal{Text: q.member(v, at, "refusal")}
	case "input_image":
		return q.inputImage(v, at)
	case "input_file":
		return q.inputFile(v, at)
	case "input_audio":
		return q.inputAudio(v, at)
	default:
		return llm.Native{Dialect: own, Type: partMark + typ, Raw: v.Raw(), At: at}
	}
}

// cacheOf reads a cache mark: the protocol's own, or the one that the messages
// dialect has, for its models.
func (q *requestDecoder) cacheOf(v jsonedit.Value, at string) *llm.Cache {
	for key, m := range v.Fields() {
		if m.Kind() == jsonedit.Object && (key.Is("cache_control") || key.Is("prompt_cache_breakpoint")) {
			return q.readCache(m, at+"."+key.String())
		}
	}
	return nil
}

func (q *requestDecoder) inputImage(v jsonedit.Value, at string) llm.Part {
	m := llm.Media{
		Kind: llm.Image, FileID: q.member(v, at, "file_id"), Detail: q.member(v, at, "detail"),
		Cache: q.cacheOf(v, at), At: at,
	}
	q.LoseUnknown(at, v, "type", "file_id", "detail", "image_url", "cache_control", "prompt_cache_breakpoint")
	address := q.member(v, at, "image_url")
	switch {
	case strings.HasPrefix(address, "data:"):
		q.data(&m, address, at+".image_url")
	case address != "":
		m.URL = address
	case m.FileID == "":
		q.Refuse(at, dialect.CodeMissing, "an image needs image_url or file_id")
	}
	return m
}

// data splits a data: URL into m.
func (q *requestDecoder) data(m *llm.Media, address, at string) {
	mime, data, ok := dialect.ParseDataURL(address)
	if !ok {
		q.Refuse(at, dialect.CodeValue, "is not a data: URL")
		return
	}
	m.Type, m.Data = mime, q.Base64(at, data)
}

func (q *requestDecoder) inputFile(v jsonedit.Value, at string) llm.Part {
	m := llm.Media{
		Kind: llm.Document, FileID: q.member(v, at, "file_id"), URL: q.member(v, at, "file_url"),
		Name: q.member(v, at, "filename"), Detail: q.member(v, at, "detail"), Cache: q.cacheOf(v, at), At: at,
	}
	q.LoseUnknown(at, v, "type", "file_id", "file_url", "filename", "detail", "file_data", "cache_control", "prompt_cache_breakpoint")
	switch data := q.member(v, at, "file_data"); {
	case strings.HasPrefix(data, "data:"):
		q.data(&m, data, at+".file_data")
	case data != "":
		m.Data = q.Base64(at+".file_data", data)
	case m.FileID == "" && m.URL == "":
		q.Refuse(at, dialect.CodeMissing, "a file needs file_data, file_id or file_url")
	}
	if m.Data != "" {
		m.URL, m.FileID = "", ""
	}
	if m.Type == "" {
		m.Type = dialect.TypeByName(m.Name + m.URL)
	}
	if m.Type != "" {
		m.Kind = dialect.MediaKindOf(m.Type)
	}
	return m
}

func (q *requestDecoder) inputAudio(v jsonedit.Value, at string) llm.Part {
	inner, _ := v.Get("input_audio")
	q.LoseUnknown(at, v, "type", "input_audio")
	format := q.needed(inner, at+".input_audio", "format")
	data := q.Base64(at+".input_audio.data", q.member(inner, at+".input_audio", "data"))
	return llm.Media{Kind: llm.Audio, Type: "audio/" + format, Data: data, At: at}
}

// citations reads the annotations of a text part.
func citations(v jsonedit.Value) []llm.Citation {
	list, _ := v.Get("annotations")
	var out []llm.Citation
	for e := range list.Elements() {
		out = append(out, citation(e))
	}
	return out
}

func citation(v jsonedit.Value) llm.Citation {
	c := llm.Citation{Raw: v.Raw(), Dialect: own}
	for key, m := range v.Fields() {
		switch {
		case key.Is("url"):
			c.URL, _ = m.Text()
		case key.Is("title"), key.Is("filename"):
			c.Title, _ = m.Text()
		case key.Is("start_index"):
			c.Start = int(count(m))
		case key.Is("end_index"):
			c.End = int(count(m))
		}
	}
	return c
}

// redactedMark begins another vendor's signature of redacted thinking, which
// only that vendor can read.
const redactedMark = "redacted."

// thoughts reads a reasoning item. Its summary and its full text become a part
// each, both with the id of the item; one of them is usually empty. vendor made
// the signature unless the signature is marked.
func thoughts(v jsonedit.Value, vendor llm.Vendor) []llm.Part {
	summary, own := joinText(v, "summary"), joinText(v, "content")
	t := llm.Thinking{Text: summary, Summary: true, ID: v.TextOf("id")}
	var parts []llm.Part
	if own != "" {
		if summary != "" {
			parts = append(parts, t)
		}
		t.Text, t.Summary = own, false
	}
	t.Signature, t.Redacted = signature(v.TextOf("encrypted_content"), vendor)
	t.Summary = t.Summary && t.Signature.Vendor != llm.Anthropic && t.Signature.Vendor != llm.Google && t.Signature.Vendor != llm.Amazon
	return append(parts, t)
}

// signature reads encrypted_content.
func signature(text string, vendor llm.Vendor) (s llm.Signature, redacted bool) {
	s = dialect.ReadSignature(vendor, text)
	if s.Vendor != vendor {
		s.Value, redacted = strings.CutPrefix(s.Value, redactedMark)
	}
	return s, redacted
}

// between separates the parts of a summary.
const between = "\n\n"

// joinText joins the text of an array of parts.
func joinText(v jsonedit.Value, name string) string {
	list, _ := v.Get(name)
	var out strings.Builder
	n := 0
	for e := range list.Elements() {
		if n++; n > 1 {
			out.WriteString(between)
		}
		out.WriteString(e.TextOf("text"))
	}
	return out.String()
}

// imagePart reads an image generated by the model. Without a result it is kept
// unchanged.
func imagePart(v jsonedit.Value) llm.Part {
	result := v.TextOf("result")
	if result == "" {
		return llm.Native{Dialect: own, Type: "image_generation_call", Raw: v.Raw()}
	}
	format := v.TextOf("output_format")
	if format == "" {
		format = "png"
	}
	return llm.Media{
		Kind: llm.Image, Type: "image/" + format, Data: result,
		Extra: extraOf(v, "type", "result", "output_format", "status"),
	}
}
