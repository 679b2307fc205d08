package jsonrpc_test

import (
	"testing"

	"modelgate/internal/format/jsonrpc"
)

func TestResponses(t *testing.T) {
	for want, got := range map[string][]byte{
		`{"jsonrpc":"2.0","id":7,"result":{"a": 1.50}}`: jsonrpc.Response([]byte("7"), "result", []byte(`{"a": 1.50}`)),
		`{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"\"quoted\"\n"}}`: (&jsonrpc.Error{
			Code: jsonrpc.MethodNotFound, Message: "\"quoted\"\n"}).Response([]byte(`"a"`)),
		`{"jsonrpc":"2.0","id":null,"error":{"code":429,"message":"","data":{"b":2}}}`: (&jsonrpc.Error{
			Code: 429, Data: []byte(`{"b":2}`)}).Response(nil),
	} {
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
