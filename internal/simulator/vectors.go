package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// rawInputs returns the elements of a list as inputs: of a string the text
// between its quotes, of anything else its JSON.
func rawInputs(list []any) []input {
	inputs := make([]input, 0, len(list))
	for _, v := range list {
		if text, ok := v.(string); ok {
			inputs = append(inputs, textInput(appendRaw(nil, text)))
			continue
		}
		raw, _ := json.Marshal(v) // it came from valid JSON
		inputs = append(inputs, input{raw: raw, tokens: tokensOf(len(raw))})
	}
	return inputs
}

// appendTyped appends the vectors of the inputs in one of Cohere's types.
func appendTyped(dst []byte, inputs []input, size int, kind string) []byte {
	dst = append(dst, '[')
	for i, in := range inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		v := Vector(string(in.raw), size)
		if kind == "float" || kind == "base64" {
			dst = appendVector(dst, v, kind == "base64")
			continue
		}
		dst = appendIntegers(dst, v, kind)
	}
	return append(dst, ']')
}

// appendIntegers appends a vector of integers; the binary types pack eight
// dimensions into each.
func appendIntegers(dst []byte, v []float32, kind string) []byte {
	low := map[string]int{"uint8": 128, "binary": -128}[kind]
	packed := kind == "binary" || kind == "ubinary"
	dst = append(dst, '[')
	for i := 0; i < len(v); i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		n := int(v[i] * 127)
		if packed {
			n = 0
			for bit := range 8 {
				if i+bit < len(v) && v[i+bit] > 0 {
					n |= 128 >> bit
				}
			}
			i += 7
		}
		dst = strconv.AppendInt(dst, int64(n+low), 10)
	}
	return append(dst, ']')
}

// A rank is the score of a document: how much of the query it contains, in
// percent.
type rank struct{ index, score int }

func ranked(query string, documents []string) []rank {
	wanted := words(query)
	list := make([]rank, len(documents))
	for i, document := range documents {
		has := words(document)
		hits := 0
		for _, word := range wanted {
			if slices.Contains(has, word) {
				hits++
			}
		}
		list[i] = rank{i, 100 * hits / max(len(wanted), 1)}
	}
	slices.SortStableFunc(list, func(a, b rank) int { return b.score - a.score })
	return list
}

func twoDigits(n int) string {
	if n < 10 {
		return "0" + itoa(n)
	}
	return itoa(n)
}

// embedTitan answers InvokeModel of a Titan embedding model.
func (x *exchange) embedTitan(m map[string]any) {
	c := newChecker(&invokeProtocol)
	c.checkMembers(m, "", "inputText", "dimensions", "normalize", "embeddingTypes")
	text := c.filled(m, "inputText", "")
	size := c.integer(m, "dimensions", "", 1)
	if size == 0 || size > maxDimensions {
		size = 1024
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	inputs := rawInputs([]any{text})
	x.bill(sumTokens(inputs))
	x.out = appendVector(append(x.out[:0], `{"embedding":`...), Vector(string(inputs[0].raw), size), false)
	x.out = appendAll(x.out, `,"inputTextTokenCount":`, itoa(x.prompt), `}`)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// embedNova answers InvokeModel of a Nova embedding model.
// https://docs.aws.amazon.com/nova/latest/userguide/embeddings-schema.html
func (x *exchange) embedNova(m map[string]any) {
	const path = "singleEmbeddingParams"
	c := newChecker(&invokeProtocol)
	c.checkMembers(m, "", "schemaVersion", "taskType", path)
	c.word(m, "taskType", "", "SINGLE_EMBEDDING")
	params := c.object(m[path], path)
	c.checkMembers(params, path, "embeddingPurpose", "embeddingDimension", "text", "image", "video", "audio")
	c.filled(params, "embeddingPurpose", path)
	size := c.integer(params, "embeddingDimension", path, 256)
	if size == 0 || size > maxDimensions {
		size = 3072
	}
	kind := c.one(params, path, "text", "image", "video", "audio")
	inner := c.object(params[kind], at(path, kind))
	var in input
	if kind == "text" {
		c.word(inner, "truncationMode", at(path, kind), "START", "END", "NONE")
		in = textInput(appendRaw(nil, c.filled(inner, "value", at(path, kind))))
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	x.bill(in.tokens)
	x.out = append(x.out[:0], `{"embeddings":[{"embeddingType":"TEXT","embedding":`...)
	x.out = appendVector(x.out, Vector(string(in.raw), size), false)
	x.out = appendAll(x.out, `}],"inputTokenCount":`, itoa(x.prompt), `}`)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// rankInvoked answers InvokeModel of a model that ranks documents.
func (x *exchange) rankInvoked(m map[string]any) {
	c := newChecker(&invokeProtocol)
	c.checkMembers(m, "", "query", "documents", "top_n", "max_tokens_per_doc", "api_version")
	query := c.filled(m, "query", "")
	documents := c.texts(m, "documents", "")
	c.needList(m, "documents", "")
	top := c.integer(m, "top_n", "", 1)
	if c.integer(m, "api_version", "", 1) != 2 {
		c.fail("api_version", "must be 2")
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	x.out = append(x.out[:0], '{')
	x.sendRanks(query, documents, top)
	x.out = append(x.out, '}')
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// sendRanks appends the member results: the documents by how much of the query
// they contain, at most top of them.
func (x *exchange) sendRanks(query string, documents []string, top int) {
	if top == 0 {
		top = len(documents)
	}
	x.out = append(x.out, `"results":[`...)
	for i, r := range ranked(query, documents)[:min(top, len(documents))] {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendAll(x.out, `{"index":`, itoa(r.index), `,"relevance_score":`, itoa(r.score/100), `.`, twoDigits(r.score%100), `}`)
	}
	x.out = append(x.out, ']')
}

// embedded reads a content to embed, and returns its texts as one input.
func (g *geminiReader) embedded(m map[string]any, path string) input {
	content := g.child(m, "content", path, "role", "parts")
	var text strings.Builder
	for i, v := range g.c.needList(content, "parts", at(path, "content")) {
		where := nth(at(path, "content.parts"), i)
		part := camel(g.c.object(v, where))
		if g.c.one(part, where, "text", "inlineData", "fileData") == "text" {
			text.WriteString(g.c.needText(part, "text", where))
		}
	}
	return textInput(appendRaw(nil, text.String()))
}

func (g *geminiReader) embedding(m map[string]any, path string) (input, int) {
	camel(m)
	g.c.checkMembers(m, path, "model", "content", "taskType", "title", "outputDimensionality", "embedContentConfig")
	config := g.child(m, "embedContentConfig", path, "taskType", "title", "outputDimensionality", "autoTruncate", "documentOcr",
		"audioTrackExtraction")
	if config == nil {
		config = m
	}
	size := g.c.integer(config, "outputDimensionality", path, 1)
	if size == 0 || size > maxDimensions {
		size = 3072
	}
	g.c.word(config, "taskType", path, "TASK_TYPE_UNSPECIFIED", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "SEMANTIC_SIMILARITY",
		"CLASSIFICATION", "CLUSTERING", "QUESTION_ANSWERING", "FACT_VERIFICATION", "CODE_RETRIEVAL_QUERY")
	return g.embedded(m, path), size
}

// serveGeminiEmbed answers :embedContent.
func serveGeminiEmbed(x *exchange) {
	model := geminiModel(x)
	m, ok := x.open(model)
	if !ok {
		return
	}
	g := newGemini(x, *model, false)
	in, size := g.embedding(m, "")
	if g.c.wrong.kind != "" {
		x.refuse(statusOf, g.c.wrong)
		return
	}
	x.bill(in.tokens)
	x.out = appendVector(append(x.out[:0], `{"embedding":{"values":`...), Vector(string(in.raw), size), false)
	x.endEmbeddings(append(x.out, '}'))
}

// serveGeminiBatch answers :batchEmbedContents.
func serveGeminiBatch(x *exchange) {
	model := geminiModel(x)
	m, ok := x.open(model)
	if !ok {
		return
	}
	g := newGemini(x, *model, false)
	g.c.checkMembers(m, "", "requests")
	prompt := 0
	x.out = append(x.out[:0], `{"embeddings":[`...)
	for i, v := range g.c.needList(m, "requests", "") {
		path := nth("requests", i)
		request := g.c.object(v, path)
		if name := g.c.filled(request, "model", path); name != "models/"+*model {
			g.c.fail(path, "model does not match the model in the batch request")
		}
		in, size := g.embedding(request, path)
		prompt += in.tokens
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = append(appendVector(append(x.out, `{"values":`...), Vector(string(in.raw), size), false), '}')
	}
	if g.c.wrong.kind != "" {
		x.refuse(statusOf, g.c.wrong)
		return
	}
	x.bill(prompt)
	x.endEmbeddings(append(x.out, ']'))
}

func (x *exchange) endEmbeddings(b []byte) {
	if !x.plan.noUsage {
		b = appendAll(b, `,"usageMetadata":{"promptTokenCount":`, itoa(x.prompt), `}`)
	}
	x.out = append(b, '}')
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// serveVertexPredict answers :predict of a text embedding model.
func serveVertexPredict(x *exchange) {
	model := geminiModel(x)
	m, ok := x.open(model)
	if !ok {
		return
	}
	c := newChecker(&geminiProtocol)
	c.checkMembers(m, "", "instances", "parameters", "labels")
	size := c.integer(c.child(m, "parameters", ""), "outputDimensionality", "parameters", 1)
	if size == 0 || size > maxDimensions {
		size = 768
	}
	prompt := 0
	x.out = append(x.out[:0], `{"predictions":[`...)
	for i, v := range c.needList(m, "instances", "") {
		path := nth("instances", i)
		text := c.needText(c.object(v, path), "content", path)
		in := textInput(appendRaw(nil, text))
		prompt += in.tokens
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendVector(append(x.out, `{"embeddings":{"values":`...), Vector(string(in.raw), size), false)
		x.out = appendAll(x.out, `,"statistics":{"token_count":`, itoa(in.tokens), `,"truncated":false}}}`)
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	x.bill(prompt)
	x.out = append(x.out, `]}`...)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// serveGeminiCount answers :countTokens.
func serveGeminiCount(x *exchange) {
	model := geminiModel(x)
	m, ok := x.open(model)
	if !ok {
		return
	}
	g := newGemini(x, *model, false)
	body := m
	camel(m)
	if inner := g.c.child(m, "generateContentRequest", ""); inner != nil && !g.vertex {
		g.c.checkMembers(m, "", "generateContentRequest")
		g.c.filled(inner, "model", "generateContentRequest")
		body = inner
	} else if g.vertex {
		g.c.checkMembers(m, "", "contents", "systemInstruction", "tools", "generationConfig", "instances", "model")
	} else {
		g.c.checkMembers(m, "", "contents")
	}
	g.read(body)
	if !x.accept(g.q, g.c, body) {
		return
	}
	x.out = appendAll(x.out[:0], `{"totalTokens":`, itoa(x.prompt), `,"promptTokensDetails":[{"modality":"TEXT","tokenCount":`, itoa(x.prompt),
		`}]}`)
	x.prompt, x.cached = 0, 0
	x.sendBody(http.StatusOK, typeJSON, x.out)
}
