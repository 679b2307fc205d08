package simulator

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
)

const (
	defaultDimensions = 1536
	maxDimensions     = 8192
	maxInputs         = 2048
)

// serveEmbeddings answers POST /embeddings.
func serveEmbeddings(x *exchange) {
	var (
		wrong      providerError
		inputs     []input
		given      bool
		format     []byte
		dimensions = defaultDimensions
	)
	member := func(s *scanner, key []byte) {
		switch string(key) {
		case "input":
			given = true
			inputs = s.inputsOf("input", &wrong)
		case "encoding_format":
			format = s.stringOf("encoding_format", &wrong)
		case "dimensions":
			dimensions = s.integerOf("dimensions", defaultDimensions, &wrong)
		default:
			s.skip()
		}
	}
	needed := func() providerError {
		switch {
		case !given:
			return missing("input")
		case len(inputs) == 0 || len(inputs) > maxInputs || len(inputs[0].raw) == 0:
			return mistyped("input", "not empty, with at most 2048 elements")
		case dimensions < 1 || dimensions > maxDimensions:
			return mistyped("dimensions", "an integer from 1 to 8192")
		case len(format) > 0 && string(format) != "float" && string(format) != "base64":
			return mistyped("encoding_format", "float or base64")
		}
		return providerError{}
	}
	if !x.readObject(&wrong, member, needed) || !x.needsModel() {
		return
	}
	x.prompt = sumTokens(inputs)
	x.sendVectors(inputs, dimensions, string(format) == "base64")
}

func (x *exchange) sendVectors(inputs []input, dimensions int, packed bool) {
	// Some providers send an id, and Mistral's client requires it.
	// https://docs.mistral.ai/api/#tag/embeddings
	x.out = appendAll(x.out[:0], `{"id":"embd-sim-`, x.idText(), `","object":"list","data":[`)
	for i, in := range inputs {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = strconv.AppendInt(append(x.out, `{"object":"embedding","index":`...), int64(i), 10)
		x.out = append(x.out, `,"embedding":`...)
		x.out = append(appendVector(x.out, Vector(string(in.raw), dimensions), packed), '}')
	}
	x.out = append(append(append(x.out, `],"model":"`...), x.rawName...), '"')
	if !x.plan.noUsage {
		x.out = strconv.AppendInt(append(x.out, `,"usage":{"prompt_tokens":`...), int64(x.prompt), 10)
		x.out = strconv.AppendInt(append(x.out, `,"total_tokens":`...), int64(x.prompt), 10)
		x.out = append(x.out, '}')
	}
	x.out = append(x.out, '}')
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// Vector returns the embedding of an input as in the request's JSON (a string
// without its quotes): a vector of length one, always the same for an input.
func Vector(raw string, dimensions int) []float32 {
	h := fnv.New64a()
	h.Write([]byte(raw)) // a hash never fails
	rng := rand.New(rand.NewPCG(h.Sum64(), uint64(dimensions)))
	v := make([]float32, dimensions)
	var sum float64
	for i := range v {
		f := rng.Float64()*2 - 1
		v[i] = float32(f)
		sum += f * f
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
	return v
}

// appendVector appends a vector as an array, or as base64 of little-endian
// floats.
func appendVector(dst []byte, v []float32, packed bool) []byte {
	if packed {
		b := make([]byte, 0, 4*len(v))
		for _, f := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		}
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
	}
	dst = append(dst, '[')
	for i, f := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(f), 'g', -1, 32)
	}
	return append(dst, ']')
}
