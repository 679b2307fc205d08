package bytepool_test

import (
	"bytes"
	"errors"
	"testing"

	"modelgate/internal/base/bytepool"
)

func TestAppendingMovesToALargerBufferWithinTheBudget(t *testing.T) {
	pool := bytepool.New(14 << 10)
	b, err := pool.Get(1)
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := range 3 { // 4 KB, then 8 KB
		part := bytes.Repeat([]byte{byte('a' + i)}, 2<<10)
		if b, err = b.Append(part); err != nil {
			t.Fatalf("part %d: %v", i, err)
		}
		want = append(want, part...)
	}
	if used := pool.Used(); used != 8<<10 || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%d bytes are lent for %d", used, b.Len())
	}
	same, err := b.Append(make([]byte, 3<<10))
	if !errors.Is(err, bytepool.ErrBudget) || same != b || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("beyond the budget: %v, %d bytes", err, b.Len())
	}
	b.Release()
	if used := pool.Used(); used != 0 {
		t.Errorf("%d bytes are still lent", used)
	}
}
