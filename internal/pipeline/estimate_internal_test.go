package pipeline

import (
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/bytepool"
)

func TestInputIsEstimatedByTextAndMedia(t *testing.T) {
	image := strings.Repeat("iVBORw0KGgo", 1000)
	for _, tt := range []struct {
		name, body string
		want       int64
	}{
		{"text", `{"prompt":"` + strings.Repeat("word ", 80) + `"}`, 104},
		{"data URL", `{"url":"data:image/png;base64,` + image + `"}`, 3 + 1000},
		{"base64", `{"data":"` + image + `","type":"x"}`, 6 + 1000},
		{"address", `{"url":"https://example.com/cat.png"}`, 3 + 1000},
		{"address within text", `{"text":"see https://example.com/cat.png there"}`, 12},
		{"two pictures", `["http://a.example/1","http://a.example/2"]`, 2 + 2000},
		{"an open string", `{"a":"b`, 2},
		{"empty", ``, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := jsonTokens([]byte(tt.body)); got != tt.want {
				t.Errorf("jsonTokens = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestAnEstimateHoldsAfterTheBodyIsReleased(t *testing.T) {
	pool := bytepool.New(1 << 20)
	body, err := pool.Get(400)
	if err != nil {
		t.Fatal(err)
	}
	body.Fill(func(b []byte) []byte { return append(b, strings.Repeat("a ", 200)...) })
	s := sentRequest{op: api.Chat, body: body, size: 400, json: true}
	if n := s.tokens(); n != 100 {
		t.Errorf("tokens = %d, want 100", n)
	}
	s.release()
	if n := s.tokens(); n != 100 || pool.Used() != 0 {
		t.Errorf("after release: tokens = %d, %d bytes used; want 100 and none", n, pool.Used())
	}
}

func TestRequestsThatReadUseNoTokens(t *testing.T) {
	for _, tt := range []struct {
		op     api.Operation
		method string
		size   int64
		want   bool
	}{
		{api.Chat, "POST", 10, true}, {api.Proxy, "POST", 10, true}, {api.Proxy, "POST", -1, true},
		{api.Proxy, "GET", 10, false}, {api.Proxy, "DELETE", 10, false}, {api.Proxy, "POST", 0, false},
		{api.Models, "GET", 0, false}, {api.CountTokens, "POST", 10, false}, {api.GenerateCount, "POST", 10, false},
	} {
		s := sentRequest{op: tt.op, method: tt.method, size: tt.size}
		if got := s.uses(); got != tt.want {
			t.Errorf("%s %s of %d bytes uses tokens = %t, want %t", tt.method, tt.op, tt.size, got, tt.want)
		}
	}
}
