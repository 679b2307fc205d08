package jwt

import (
	"encoding/binary"
	"testing"

	"modelgate/internal/identity/access"
)

func hashOf(n int) access.Hash {
	var h access.Hash
	h[0] = byte(n)
	binary.BigEndian.PutUint64(h[8:], uint64(n))
	return h
}

func TestTheCacheIsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	var c cache
	used, other := hashOf(0), hashOf(1)
	keep := new(verifiedToken)
	c.put(used, keep)
	c.put(other, new(verifiedToken))
	for n := 2; n < 10*shards*perShard; n++ {
		c.put(hashOf(n), new(verifiedToken))
		if c.get(used) != keep {
			t.Fatalf("what is used was forgotten after %d others", n)
		}
	}
	size := 0
	for i := range c {
		size += len(c[i].young) + len(c[i].old)
	}
	if most := 2 * shards * perShard; size > most || size < most/4 {
		t.Errorf("%d are kept, want %d at most", size, most)
	}
	if c.get(other) != nil {
		t.Error("what is not used is not forgotten")
	}
}
