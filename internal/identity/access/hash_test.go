package access_test

import (
	"strings"
	"testing"

	"modelgate/internal/identity/access"
)

func TestHashKeyIsTheSHA256OfTheKey(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{strings.Repeat("a", 1000), "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3"},
	} {
		if got := access.HashKey(tt.key).String(); got != tt.want {
			t.Errorf("HashKey(%.10q…) = %s, want %s", tt.key, got, tt.want)
		}
	}
}

func TestHashKeyOfAGatewayKeyAllocatesNothing(t *testing.T) {
	key := access.NewKey().Reveal()
	var h access.Hash
	if n := testing.AllocsPerRun(100, func() { h = access.HashKey(key) }); n != 0 {
		t.Errorf("HashKey allocates %g objects, want none", n)
	}
	if h == (access.Hash{}) {
		t.Error("the hash of a key is zero")
	}
}
