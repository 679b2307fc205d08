package batches

// lineSet is a set of numbers of lines, from 1.
type lineSet struct{ bits []uint64 }

func (s *lineSet) has(n int) bool {
	i := n / 64
	return i < len(s.bits) && s.bits[i]&(1<<(n%64)) != 0
}

func (s *lineSet) add(n int) {
	for n/64 >= len(s.bits) {
		s.bits = append(s.bits, 0)
	}
	s.bits[n/64] |= 1 << (n % 64)
}

// span is the lines from First to Last.
type span struct{ First, Last int }

func (s *lineSet) addAll(spans []span) {
	for _, x := range spans {
		for n := x.First; n <= x.Last; n++ {
			s.add(n)
		}
	}
}

// spansOf returns sorted numbers as spans.
func spansOf(sorted []int) (list []span) {
	for _, n := range sorted {
		if k := len(list); k > 0 && list[k-1].Last == n-1 {
			list[k-1].Last = n
			continue
		}
		list = append(list, span{n, n})
	}
	return list
}
