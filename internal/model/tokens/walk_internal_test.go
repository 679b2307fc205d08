package tokens

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"modelgate/internal/model/llm"
)

// texts make text that tokenizers merge little, by their length in characters.
var texts = map[string]func(r *rand.Rand, n int) string{
	"English":      func(r *rand.Rand, n int) string { return words(r, n, "the", "quick", "brown", "fox", "jumps", "over") },
	"letters":      func(r *rand.Rand, n int) string { return runes(r, n, 'a', 'z') },
	"signs":        func(r *rand.Rand, n int) string { return runes(r, n, '!', '~') },
	"Chinese":      func(r *rand.Rand, n int) string { return runes(r, n, 0x4E00, 0x9FA0) },
	"rare Chinese": func(r *rand.Rand, n int) string { return runes(r, n, 0x3400, 0x4DB0) },
	"Japanese":     func(r *rand.Rand, n int) string { return runes(r, n, 0x3041, 0x30FA) },
	"Korean":       func(r *rand.Rand, n int) string { return runes(r, n, 0xAC00, 0xD7A0) },
	"Russian":      func(r *rand.Rand, n int) string { return runes(r, n, 'а', 'я') },
	"Armenian":     func(r *rand.Rand, n int) string { return runes(r, n, 0x0531, 0x0587) },
	"Ethiopic":     func(r *rand.Rand, n int) string { return runes(r, n, 0x1200, 0x1248) },
	"cuneiform":    func(r *rand.Rand, n int) string { return runes(r, n, 0x12000, 0x12300) },
	"emoji":        func(r *rand.Rand, n int) string { return runes(r, n, 0x1F300, 0x1F6FF) },
	"lines":        func(r *rand.Rand, n int) string { return strings.Repeat("a\n", n/2+1) },
	"long lines": func(r *rand.Rand, n int) string {
		return strings.ReplaceAll(words(r, n, "one", "two", "three"), " ", "\n")
	},
	"tabs and spaces": func(r *rand.Rand, n int) string { return words(r, n, "\t", "\n", "\r\n", "", "x") },
	"spaces":          func(r *rand.Rand, n int) string { return strings.Repeat(" ", n) },
	"base64": func(r *rand.Rand, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return base64.StdEncoding.EncodeToString(b)
	},
	"digits":   func(r *rand.Rand, n int) string { return runes(r, n, '0', '9') },
	"JSON":     func(r *rand.Rand, n int) string { return strings.Repeat(`{"a":[1,"\\",{}]},`, n/16+1) },
	"capitals": func(r *rand.Rand, n int) string { return strings.Repeat("jQ", n/2+1) },
}

func runes(r *rand.Rand, n int, from, to rune) string {
	var b strings.Builder
	for range n {
		b.WriteRune(from + rune(r.IntN(int(to-from))))
	}
	return b.String()
}

func words(r *rand.Rand, n int, list ...string) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(list[r.IntN(len(list))])
		b.WriteByte(' ')
	}
	return b.String()
}

// fullCount counts all of a text, as a tokenizer does that takes no sample.
func fullCount(t *testing.T, model, text string) int64 {
	t.Helper()
	f := familyOf("", model)
	n := 0
	for i := 0; i < len(text); {
		end := boundary([]byte(text), i+chunk)
		count, err := vocabularies[f.encoding]().Count(text[i:end])
		if err != nil {
			t.Fatal(err)
		}
		n, i = n+count, end
	}
	return int64(float64(n) * f.factor)
}

// escapedText returns s as some libraries send it: every character but ASCII in escapes.
func escapedText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			q, _ := json.Marshal(string(r))
			b.Write(q[1 : len(q)-1])
		case r > 0xFFFF:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Whatever the text, both estimates of a request are at least a third of what the
// tokenizer counts, and the one by bytes at least a third of the other.
func TestEstimatesAreAtLeastAThirdOfTheTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, text := range texts {
		for _, model := range []string{"gpt-4o", "gpt-4", "claude-opus-4-5"} {
			for _, n := range []int{1, 40, 500, 17_000} {
				if n > 500 && model != "gpt-4o" {
					continue
				}
				s := text(r, n)
				want := fullCount(t, model, s)
				plain, _ := json.Marshal(s)
				for form, body := range map[string]string{
					"a text": `{"m":` + string(plain) + `}`, "escapes": `{"m":"` + escapedText(s) + `"}`,
					"a name in the data of a tool": `{"arguments":{` + string(plain) + `:1}}`,
				} {
					if n > 500 && form != "a text" {
						continue
					}
					counted, sized := EstimateRequest("", model, []byte(body)), SizeRequest("", model, []byte(body))
					if counted*3 < want || sized*3 < want || sized*3 < counted {
						t.Errorf("%s, %d characters as %s for %s: estimated at %d, by bytes at %d; the tokenizer counts %d", name, n, form, model, counted, sized, want)
					}
				}
			}
		}
	}
}

// What models write is estimated by its size as it arrives.
func TestWrittenTextIsEstimatedAtAThirdOfItsTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for name, text := range texts {
		for _, model := range []string{"gpt-4o", "gpt-4", "claude-opus-4-5", "mistral-large"} {
			s := text(r, 500)
			want := fullCount(t, model, s)
			if got := Approximate("", model, llm.TextSize(s)); got*3 < want {
				t.Errorf("%s written by %s: estimated at %d, the tokenizer counts %d", name, model, got, want)
			}
		}
	}
}

// A text that is mostly cheap where samples of it might be taken is not cheap.
func TestSamplesCannotBeForeseen(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	dear := runes(r, chunk/3, 0x3400, 0x4DB0) + "  " // as long as a chunk
	cheap := strings.Repeat(" ", chunk)
	const groups = chunks
	for first := range 4 {
		var b strings.Builder
		for i := range groups * 4 {
			if i%4 == first {
				b.WriteString(cheap)
			} else {
				b.WriteString(dear)
			}
		}
		want := fullCount(t, "gpt-4o", b.String())
		if got := Estimate("", "gpt-4o", []byte(b.String())); got*3 < want {
			t.Errorf("chunks %d of 4 are spaces: estimated at %d, the tokenizer counts %d", first, got, want)
		}
	}
}

// Random bodies of members that APIs have and of others, nested at random.
func TestTheEstimateByBytesCoversRandomBodies(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	names := []string{"role", "content", "text", "tools", "input", "arguments", "type", "id", "image_url", "url", "source", "data", "media_type", "mimeType",
		"inlineData", "file_id", "signature", "encrypted_content", "prompt", "images", "json", "x", "a name that no API has, longer than forty bytes"}
	kinds := make([]func(*rand.Rand, int) string, 0, len(texts))
	for _, f := range texts {
		kinds = append(kinds, f)
	}
	var value func(depth int) any
	value = func(depth int) any {
		switch n := r.IntN(10); {
		case n < 3 && depth < 5:
			m := map[string]any{}
			for range r.IntN(5) {
				m[names[r.IntN(len(names))]] = value(depth + 1)
			}
			return m
		case n < 5 && depth < 5:
			list := []any{}
			for range r.IntN(6) {
				list = append(list, value(depth+1))
			}
			return list
		case n == 5:
			return r.IntN(1 << r.IntN(40))
		case n == 6:
			return "data:image/png;base64," + texts["base64"](r, r.IntN(3000))
		}
		return kinds[r.IntN(len(kinds))](r, r.IntN(200))
	}
	for range 150 {
		body, err := json.Marshal(map[string]any{"messages": value(0), "tools": value(1), "input": value(1)})
		if err != nil {
			t.Fatal(err)
		}
		for _, model := range []string{"gpt-4o", "claude-opus-4-5"} {
			if counted, sized := EstimateRequest("", model, body), SizeRequest("", model, body); sized*3 < counted {
				t.Fatalf("%s: by bytes %d, estimated at %d", body, sized, counted)
			}
		}
	}
}

// Only fields for media have media, and only where they can hold it.
func TestMediaIsInFieldsForMedia(t *testing.T) {
	data := strings.Repeat("iVBORw0KGgo", 1000)
	for name, tt := range map[string]struct {
		body string
		want int64 // tokens of media
	}{
		"an image of chat":                   {`{"image_url":{"url":"https://a.example/1.png","detail":"low"}}`, 1000},
		"a recording of chat":                {`{"input_audio":{"data":"` + data + `","format":"wav"}}`, 1000},
		"a file of chat":                     {`{"file":{"file_data":"data:application/pdf;base64,` + data + `","filename":"a.pdf"}}`, 1000},
		"a file by its id":                   {`{"type":"file","file":{"file_id":"file-1"}}`, 1000},
		"an image of messages":               {`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`, 1000},
		"an image of responses":              {`{"type":"input_image","image_url":"https://a.example/1.png"}`, 1000},
		"an image of gemini":                 {`{"inlineData":{"mimeType":"image/png","data":"` + data + `"}}`, 1000},
		"an image of converse":               {`{"image":{"format":"png","source":{"bytes":"` + data + `"}}}`, 1000},
		"two images of Ollama":               {`{"images":["` + data + `","` + data + `"]}`, 2000},
		"a video of three megabytes":         {`{"inline_data":{"mime_type":"video/mp4","data":"` + strings.Repeat("A", 3_000_000) + `"}}`, 3000},
		"a text document of messages":        {`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"` + data + `"}}`, 0},
		"a text document whose type is last": {`{"type":"document","source":{"data":"` + data + `","type":"text"}}`, 0},
		"an inline text of gemini":           {`{"inlineData":{"data":"` + data + `","mimeType":"text/csv"}}`, 0},
		"a file of text":                     {`{"file":{"file_data":"data:text/plain;base64,` + data + `"}}`, 0},
		"base64 as text":                     {`{"type":"text","text":"` + data + `"}`, 0},
		"base64 as content":                  {`{"role":"user","content":"` + data + `"}`, 0},
		"base64 as input":                    {`{"input":"` + data + `"}`, 0},
		"data of a document":                 {`{"documents":[{"data":"` + data + `"}]}`, 0},
		"data in the data of a document":     {`{"documents":[{"data":{"source":{"data":"` + data + `"}}}]}`, 0},
		"an argument of a tool":              {`{"type":"tool_use","input":{"image_url":"` + data + `"}}`, 0},
		"a result of a tool":                 {`{"functionResponse":{"response":{"inlineData":{"data":"` + data + `"}}}}`, 0},
		"a definition of a tool":             {`{"tools":[{"function":{"description":{"image_url":"` + data + `"}}}]}`, 0},
		"text in a field for media":          {`{"image_url":"` + strings.Repeat("word ", 2000) + `"}`, 0},
		"a name in escapes":                  {`{"image\u005furl":"https://a.example/1.png"}`, 1000},
	} {
		got := int64(0)
		walk([]byte(tt.body), func(kind piece, part []byte) {
			if kind == media {
				got += tokensOf(kind, part)
			}
		})
		if got != tt.want {
			t.Errorf("%s: %d tokens of media, want %d", name, got, tt.want)
		}
		if n := SizeRequest("", "m", []byte(tt.body)); tt.want == 0 && n < 3000 {
			t.Errorf("%s: %d tokens by its bytes, want those of a text", name, n)
		}
	}
}

func BenchmarkSizeRequest(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"model":"gpt-4o","messages":[`)
	for range 8 {
		body.WriteString(`{"role":"user","content":"` + strings.Repeat("The quick brown fox. ", 24) + `"},`)
	}
	body.WriteString(`{"role":"user","content":"hi"}]}`)
	data := []byte(body.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		SizeRequest("openai", "gpt-4o", data)
	}
}
