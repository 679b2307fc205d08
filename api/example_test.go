package api_test

import (
	"fmt"
	"net/http"
	"strings"

	"modelgate/api"
)

// A request names its provider and its gateway key in headers. The names index an
// http.Header directly.
func Example() {
	r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:8787/v1/chat/completions", strings.NewReader(`{"model": "sim-1"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r.Header[api.HeaderKey] = []string{"mg-example"}
	r.Header[api.HeaderProvider] = []string{"@simulator"}
	fmt.Println(r.Header.Get("x-gateway-provider"))
	// Output: @simulator
}
