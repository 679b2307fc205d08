package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
)

func TestTheMemoryOfBodiesIsBoundedByDefault(t *testing.T) {
	const key = "mg-body-memory-key-0123456789abcdef"
	s, err := New(t.Context(), Options{Data: t.TempDir(), Listen: "127.0.0.1:0", BootstrapKey: secret.New(key)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, nil) }()
	defer func() { stop(); <-ended }()
	pool := s.engine.Bounds.Pool
	others, err := pool.Get(1)
	if err != nil {
		t.Fatal(err)
	}
	const room, large = 1 << 20, 1<<30 - 1<<30/8 // the rest is for small bodies
	if err := others.Reserve(large - room - int(pool.Used())); err != nil {
		t.Fatalf("the documented 1 GB are not there: %v", err)
	}
	if err := others.Reserve(room + 1); err == nil {
		t.Fatal("more than the documented 1 GB is lent")
	}
	post := func(size int) (int, string, string) {
		t.Helper()
		body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
		r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.Addr().String()+"/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("x-gateway-api-key", key)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text), res.Header.Get("Retry-After")
	}
	if status, text, wait := post(room + 4096); status != 503 || !strings.Contains(text, `"body_memory_full"`) || wait != "1" {
		t.Errorf("a body without room: %d %q %s", status, wait, text)
	}
	if status, text, _ := post(1000); status != 400 { // no provider is named
		t.Errorf("a body with room: %d %s", status, text)
	}
	if err := others.Reserve(room); err != nil {
		t.Fatal(err)
	}
	if status, text, _ := post(100 << 10); status != 400 {
		t.Errorf("a small body where large ones have no room: %d %s", status, text)
	}
	others.Release()
	if status, text, _ := post(room + 4096); status != 400 {
		t.Errorf("once there is room: %d %s", status, text)
	}
}
