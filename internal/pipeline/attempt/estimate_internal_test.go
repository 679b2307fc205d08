package attempt

import (
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

func TestAnEstimateHoldsAfterTheBodyIsReleased(t *testing.T) {
	pool := bytepool.New(1 << 20)
	body, err := pool.Get(400)
	if err != nil {
		t.Fatal(err)
	}
	body.Fill(func(b []byte) []byte { return append(b, strings.Repeat("a ", 200)...) })
	s := sentRequest{op: api.Chat, body: body, size: 400, json: true}
	a := &attempt{plan: plan{record: exchange.Attempt{Target: &provider.Target{Spec: &provider.Spec{ID: "openai"}}, Model: "gpt-4o"}}}
	if n := s.tokens(a); n != 80 {
		t.Errorf("tokens = %d, want 80: a token for three letters and for sixteen spaces", n)
	}
	s.release()
	if n := s.tokens(a); n != 80 || pool.Used() != 0 {
		t.Errorf("after release: tokens = %d, %d bytes used; want 80 and none", n, pool.Used())
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
