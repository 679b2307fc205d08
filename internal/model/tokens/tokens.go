// Package tokens estimates the tokens of text by model.
//
// Models of OpenAI are counted with their own vocabularies, those of others with
// the closest one, times a factor per family that was measured on recorded
// requests. It guarantees a bounded time per call, whatever the text, and loads a
// vocabulary at its first use. Estimates are for requests whose provider reports
// no usage: they do not replace its counts.
package tokens

import (
	_ "embed"
	"encoding/csv"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Limits of a call. Longer texts are estimated by a sample. The chunks are short
// because splitting a chunk without spaces takes time by the square of its length.
const (
	chunk  = 512 // bytes
	chunks = 32  // in a sample

	leastSampled = 6 // bytes per token, at most, of a text that is estimated by a sample
)

// sampleSeed makes it impossible to put into a text what samples of it miss.
var sampleSeed = maphash.MakeSeed()

// Estimate returns an estimate of the tokens of a text for a model of a provider. One by a
// sample is at least a token for six bytes.
func Estimate(provider, model string, text []byte) int64 {
	f := familyOf(provider, model)
	vocabulary := vocabularies[f.encoding]()
	counted, bytes := 0, 0
	step := max(1, (len(text)+chunk*chunks-1)/(chunk*chunks))
	var random *rand.Rand // nil if all of the text is read
	if step > 1 {
		random = rand.New(rand.NewPCG(maphash.Bytes(sampleSeed, text), 0))
	}
	for n, i, pick := 0, 0, 0; i < len(text); n++ {
		end := boundary(text, i+chunk)
		if random != nil && n%step == 0 {
			pick = random.IntN(step)
		}
		if n%step == pick {
			count, err := vocabulary.Count(string(text[i:end]))
			if err != nil {
				return Approximate(provider, model, int64(len(text)))
			}
			counted, bytes = counted+count, bytes+end-i
		}
		i = end
	}
	if bytes == 0 {
		return 0
	}
	all := int64(math.Ceil(float64(counted) * f.factor * float64(len(text)) / float64(bytes)))
	if random != nil {
		all = max(all, int64(len(text))/leastSampled)
	}
	return all
}

// Approximate returns an estimate of the tokens of text written by a model of a provider
// whose size is n, as of llm.TextSize. It takes no time and is less exact than [Estimate];
// it is neither a lower nor an upper bound.
func Approximate(provider, model string, n int64) int64 {
	if n <= 0 {
		return 0
	}
	return int64(math.Ceil(float64(n) / familyOf(provider, model).bytes))
}

// boundary returns the first index from at on that starts a character, at most a
// few bytes later.
func boundary(text []byte, at int) int {
	for i := at; i < len(text) && i < at+4; i++ {
		if text[i]&0xC0 != 0x80 {
			return i
		}
	}
	return min(at, len(text))
}

// family is a group of models with one tokenizer.
type family struct {
	name     string
	parts    []string // a model belongs to it if its name contains one
	encoding string
	factor   float64 // tokens per token of the encoding
	bytes    float64 // of text per token
	tools    int64   // tokens that are added to a request with tools
}

//go:embed families.csv
var familiesFile string

// families are the families in order; the last has no parts and takes the rest.
var families = sync.OnceValue(func() []family {
	r := csv.NewReader(strings.NewReader(familiesFile))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		panic("tokens: " + err.Error()) // a test reads the same file
	}
	var list []family
	for _, row := range rows[1:] {
		factor, _ := strconv.ParseFloat(row[3], 64)
		bytes, _ := strconv.ParseFloat(row[4], 64)
		tools, _ := strconv.ParseInt(row[5], 10, 64)
		list = append(list, family{row[0], strings.Fields(row[1]), row[2], factor, bytes, tools})
	}
	return list
})

// familyOf returns the family of a model, by its name or else by its provider.
func familyOf(provider, model string) *family {
	list := families()
	for _, name := range [...]string{strings.ToLower(model[:min(len(model), 256)]), provider} {
		for i := range list {
			for _, part := range list[i].parts {
				if strings.Contains(name, part) {
					return &list[i]
				}
			}
		}
	}
	return &list[len(list)-1]
}

// vocabularies load at their first use. The module's other vocabularies are not
// linked into the program.
var vocabularies = map[string]func() *codec.Codec{
	"o200k":  sync.OnceValue(codec.NewO200kBase),
	"cl100k": sync.OnceValue(codec.NewCl100kBase),
}
