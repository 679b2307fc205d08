package checks

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
)

// places limits the modules that run or are compiled at a time, as each may need 64 MiB
// of memory and a large stack. An organisation gets half of the places at most, so that
// its modules do not stop those of others. The zero value is ready.
type places struct {
	size int   // zero means as many as processors, at least four
	full error // of those who wait in vain; nil has a default

	mu  sync.Mutex
	all chan struct{}
	of  map[string]*organisationPlaces // guarded by mu
}

type organisationPlaces struct {
	places chan struct{}
	users  int // that have a place or wait for one
}

// enter waits for a place. The caller calls leave once if there is no error.
func (p *places) enter(ctx context.Context, organisation string) (leave func(), err error) {
	o := p.join(organisation)
	if err := p.take(ctx, o.places); err != nil {
		p.part(organisation)
		return nil, err
	}
	if err := p.take(ctx, p.all); err != nil {
		<-o.places
		p.part(organisation)
		return nil, err
	}
	return func() {
		<-p.all
		<-o.places
		p.part(organisation)
	}, nil
}

func (p *places) take(ctx context.Context, from chan struct{}) error {
	select {
	case from <- struct{}{}:
		return nil
	case <-ctx.Done():
		return cmp.Or(p.full, errors.New("the limit of modules that run at a time is reached; try again shortly"))
	}
}

// join returns the places of an organisation, and counts a user of them.
func (p *places) join(organisation string) *organisationPlaces {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all, p.of = make(chan struct{}, cmp.Or(p.size, max(4, runtime.GOMAXPROCS(0)))), make(map[string]*organisationPlaces)
	}
	o := p.of[organisation]
	if o == nil {
		o = &organisationPlaces{places: make(chan struct{}, cap(p.all)/2)}
		p.of[organisation] = o
	}
	o.users++
	return o
}

// part ends what join began.
func (p *places) part(organisation string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of[organisation]
	if o.users--; o.users == 0 {
		delete(p.of, organisation)
	}
}
