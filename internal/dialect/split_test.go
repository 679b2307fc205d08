package dialect_test

import (
	"testing"

	"modelgate/internal/dialect"
)

func TestARequestIsSplitByItsInputs(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"one text", `{"input":"a"}`, nil},
		{"one of a list", `{"input":["a"]}`, nil},
		{"none", `{"model":"m"}`, nil},
		{"no object", `[1]`, nil},
		{"two", `{"model":"m","input":["a", {"image":"b"}],"dimensions":5}`, []string{`{"model":"m","input":"a","dimensions":5}`, `{"model":"m","input":{"image":"b"},"dimensions":5}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := dialect.SplitInput([]byte(tt.body))
			if len(got) != len(tt.want) {
				t.Fatalf("SplitInput = %q, want %q", got, tt.want)
			}
			for i := range got {
				if string(got[i]) != tt.want[i] {
					t.Errorf("piece %d = %s, want %s", i, got[i], tt.want[i])
				}
			}
		})
	}
}

func TestJoinedEmbeddingsAreNumberedAndTheirTokensSummed(t *testing.T) {
	got, err := dialect.JoinEmbeddings([]byte("x"), [][]byte{
		[]byte(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}`),
		[]byte(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AAA="},{"index":1,"image_embedding":[2]}],"model":"m","usage":{"prompt_tokens":4,"total_tokens":4}}`),
	})
	const want = `x{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]},{"object":"embedding","index":1,"embedding":"AAA="},{"index":2,"image_embedding":[2]}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}`
	if err != nil || string(got) != want {
		t.Errorf("JoinEmbeddings =\n%s, %v, want\n%s", got, err, want)
	}
	if _, err := dialect.JoinEmbeddings(nil, [][]byte{[]byte(`{`)}); err == nil {
		t.Error("a response that is cut off was joined")
	}
}
