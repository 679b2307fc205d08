package semantic

import (
	"context"
	"errors"
)

// Lexical is the built-in embedder. It needs no network: its vectors are hashed
// sequences of words and letters, after phrases, spellings and synonyms have
// become one. It recognises the same words in another form, not another
// sentence with the same sense.
type Lexical struct{}

const (
	lexicalSize = 256

	// lettersWeight is the weight of the letters of a word relative to the word:
	// enough to prefer a similar word, too little to accept it.
	lettersWeight = 0.06
)

// Name implements [Embedder].
func (Lexical) Name() string { return "lexical" }

// Embed implements [Embedder].
func (Lexical) Embed(_ context.Context, text string) ([]float32, error) {
	t, ok := Read(text)
	if !ok {
		return nil, errors.New("the text has no words, is too long or is not UTF-8")
	}
	v := make([]float32, lexicalSize)
	padded := append(append([]string{"", ""}, t.words...), "", "")
	for n := 1; n <= 3; n++ {
		for i := 3 - n; i+n <= len(padded)-(3-n); i++ {
			h := hash(uint64(n), "")
			for _, w := range padded[i : i+n] {
				h = hash(h, w)
			}
			v[h%lexicalSize] += sign(h)
		}
	}
	for _, w := range t.words {
		for i := 0; i+3 <= len(w); i++ {
			h := hash(4, w[i:i+3])
			v[h%lexicalSize] += lettersWeight * sign(h)
		}
	}
	return v, nil
}

// hash continues h with w and its end (FNV-1a, mixed).
func hash(h uint64, w string) uint64 {
	h ^= 14695981039346656037
	for i := range len(w) {
		h = (h ^ uint64(w[i])) * 1099511628211
	}
	h = (h ^ 0xff) * 1099511628211
	h ^= h >> 29
	return h * 0x9e3779b97f4a7c15 >> 7
}

func sign(h uint64) float32 {
	if h&(1<<40) != 0 {
		return -1
	}
	return 1
}
