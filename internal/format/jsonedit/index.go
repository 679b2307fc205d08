package jsonedit

import (
	"bytes"
	"hash/maphash"
)

// index finds members by name in large documents: an open-addressed table, at
// most half full. The seed prevents clients from choosing names that collide.
type index struct {
	seed  maphash.Seed
	slots []int32 // number of a member plus 1, 0 if free
}

// reset rebuilds the table with the members of d and room for as many again.
func (x *index) reset(d *Doc) {
	if x.seed == (maphash.Seed{}) {
		x.seed = maphash.MakeSeed()
	}
	if size := slotsFor(d.n); size > len(x.slots) {
		x.slots = make([]int32, size)
	} else {
		clear(x.slots)
	}
	for i := range d.n {
		x.put(maphash.Bytes(x.seed, d.name(d.at(i))), i)
	}
}

// slotsFor returns a power of two, at least four times n.
func slotsFor(n int) int {
	size := 4 * inlineMembers
	for size < 4*n {
		size *= 2
	}
	return size
}

// add adds member i, the latest, and reports whether its name is new.
func (x *index) add(d *Doc, name []byte, i int) bool {
	if 2*d.n > len(x.slots) {
		x.reset(d)
		return x.find(d, string(name)) == i
	}
	hash := maphash.Bytes(x.seed, name)
	for at := hash; ; at++ {
		n := x.slots[at&uint64(len(x.slots)-1)]
		if n == 0 {
			x.put(hash, i)
			return true
		}
		if bytes.Equal(d.name(d.at(int(n-1))), name) {
			return false
		}
	}
}

// find returns the number of the member of that name, or -1.
func (x *index) find(d *Doc, name string) int {
	for at := maphash.String(x.seed, name); ; at++ {
		n := x.slots[at&uint64(len(x.slots)-1)]
		if n == 0 {
			return -1
		}
		if string(d.name(d.at(int(n-1)))) == name {
			return int(n - 1)
		}
	}
}

func (x *index) put(hash uint64, i int) {
	for at := hash; ; at++ {
		if slot := &x.slots[at&uint64(len(x.slots)-1)]; *slot == 0 {
			*slot = int32(i + 1)
			return
		}
	}
}
