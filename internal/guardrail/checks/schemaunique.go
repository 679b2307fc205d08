package checks

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"math/big"
	"reflect"
	"slices"
)

// uniqueCost returns the steps of comparing the items of an array with each other. The
// validator compares items of equal hashes, and its hashes do not tell where a value ends:
// an array of arrays can have any number of different items with one hash.
func uniqueCost(n *node) int {
	items, ok := n.value.([]any)
	if !ok {
		return 0
	}
	if len(items) <= 20 { // are compared without hashes
		return len(items) * n.size
	}
	total := n.size
	type same struct{ first, count int }
	equal := make(map[uint64]same, len(items))
	var h maphash.Hash
	for i, item := range items {
		h.Reset()
		writeItem(&h, item)
		sum := h.Sum64()
		before, ok := equal[sum]
		if !ok {
			equal[sum] = same{i, 1}
			continue
		}
		if total = add(total, before.count*n.children[i].size); total > maxCost || reflect.DeepEqual(items[before.first], item) {
			break // the validator ends at the first item that repeats another
		}
		equal[sum] = same{before.first, before.count + 1}
	}
	return total
}

// writeItem writes a value in the way in which the validator does.
func writeItem(h *maphash.Hash, value any) {
	switch v := value.(type) {
	case map[string]any:
		h.WriteByte(0)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			writeItem(h, name)
			writeItem(h, v[name])
		}
	case []any:
		h.WriteByte(1)
		for _, item := range v {
			writeItem(h, item)
		}
	case nil:
		h.WriteByte(2)
	case bool:
		h.WriteByte(3)
		if v {
			h.WriteByte(1)
		} else {
			h.WriteByte(0)
		}
	case string:
		h.WriteByte(4)
		h.WriteString(v)
	case json.Number:
		h.WriteByte(5)
		if r, ok := new(big.Rat).SetString(string(v)); ok {
			h.Write(r.Num().Bytes())
			h.Write(r.Denom().Bytes())
		}
	}
}
