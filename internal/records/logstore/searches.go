package logstore

import (
	"context"
	"sync"
)

// searchesAtOnce is the limit of concurrent searches: text searches and sorted pages. Each
// occupies a processor, and text searches take two connections instead of one.
const searchesAtOnce = 2

// searches limits searches. Those of an organisation wait for each other before they wait for
// those of others, so that organisations take turns, however many searches one of them has.
type searches struct {
	running chan struct{} // one element for each search in progress

	mu            sync.Mutex
	organisations map[string]*turns
}

// turns are the searches of an organisation.
type turns struct {
	next  chan struct{} // one element for each search that runs or is the next to run
	count int           // all searches; guarded by searches.mu
}

func newSearches() *searches {
	return &searches{running: make(chan struct{}, searchesAtOnce), organisations: make(map[string]*turns)}
}

// begin waits until a search of an organisation may begin, and returns the function that ends it.
func (s *searches) begin(ctx context.Context, organisation string) (end func(), err error) {
	s.mu.Lock()
	own := s.organisations[organisation]
	if own == nil {
		own = &turns{next: make(chan struct{}, searchesAtOnce)}
		s.organisations[organisation] = own
	}
	own.count++
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.count--; own.count == 0 {
			delete(s.organisations, organisation)
		}
	}
	select {
	case own.next <- struct{}{}:
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
	select {
	case s.running <- struct{}{}:
		return func() {
			<-s.running
			<-own.next
			forget()
		}, nil
	case <-ctx.Done():
		<-own.next
		forget()
		return nil, ctx.Err()
	}
}
