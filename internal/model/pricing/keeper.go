package pricing

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"modelgate/internal/model/catalog"
)

// Source is where files of providers are read.
type Source struct {
	Name string // proxy, log store or local
	// Read returns the file of a provider. It returns fs.ErrNotExist if the source has
	// none, which is not a fault.
	Read func(ctx context.Context, provider string) (io.ReadCloser, error)
}

// Times of a Keeper.
const (
	fresh    = time.Hour        // how long a file is used before it is read again
	again    = 5 * time.Minute  // pause after a source failed
	tick     = time.Minute      // between checks for what is due
	patience = 10 * time.Second // limit of reading one file
	parallel = 4                // files read at once
)

// Keeper keeps the files of providers. The zero value with sources works. It is
// safe for concurrent use.
type Keeper struct {
	Prices       []Source // of pricing files, in order
	Capabilities []Source // of capabilities files, in order
	Changed      func()   // called when prices or models changed; may be nil
	Logger       *slog.Logger
	Now          func() time.Time // nil is time.Now

	mu        sync.Mutex
	providers map[string]*provider // guarded by mu
	faults    map[[2]string]string // by kind and source, of the last reading; guarded by mu
	book      *catalog.PriceBook   // of all rows; nil until it is asked for; guarded by mu
	wake      chan struct{}        // receives a token when providers were added; guarded by mu
}

// provider is what is known of a provider.
type provider struct {
	due    time.Time // when its files are read again
	prices fileState[*File]
	models fileState[[]string]
}

// fileState is the last good content of a file.
type fileState[T any] struct {
	value   T
	source  string // empty if no source has the file
	read    time.Time
	ignored map[string]int
}

// Use adds providers whose files are kept from now on. It does not read them.
func (k *Keeper) Use(ids []string) {
	if len(k.Prices)+len(k.Capabilities) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.providers == nil {
		k.providers = make(map[string]*provider)
	}
	added := false
	for _, id := range ids {
		if k.providers[id] == nil {
			k.providers[id], added = new(provider), true
		}
	}
	if added {
		select {
		case k.waker() <- struct{}{}:
		default:
		}
	}
}

// waker returns the channel of Run. The caller holds mu.
func (k *Keeper) waker() chan struct{} {
	if k.wake == nil {
		k.wake = make(chan struct{}, 1)
	}
	return k.wake
}

// Run reads files when they are due, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	if len(k.Prices)+len(k.Capabilities) == 0 {
		return
	}
	k.mu.Lock()
	wake := k.waker()
	k.mu.Unlock()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-ticker.C:
		}
		k.Refresh(ctx)
	}
}

// Refresh reads the files that are due.
func (k *Keeper) Refresh(ctx context.Context) {
	now := k.now()
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	changed := false
	for _, id := range k.due(now) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if k.refresh(ctx, id, now) {
				k.mu.Lock()
				changed = true
				k.mu.Unlock()
			}
		})
	}
	wg.Wait()
	if changed && k.Changed != nil {
		k.Changed()
	}
}

// due returns the providers whose files are due.
func (k *Keeper) due(now time.Time) (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, p := range k.providers {
		if !now.Before(p.due) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (k *Keeper) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}

// refresh reads the files of a provider and reports whether anything changed.
func (k *Keeper) refresh(ctx context.Context, id string, now time.Time) bool {
	prices, pricesFrom := k.read(ctx, "pricing", k.Prices, id, func(data []byte) (any, map[string]int, error) {
		f, err := ParseFile(id, data)
		if err != nil {
			return nil, nil, err
		}
		return f, f.Ignored, nil
	})
	models, modelsFrom := k.read(ctx, "capabilities", k.Capabilities, id, func(data []byte) (any, map[string]int, error) {
		names, ignored, err := parseModels(id, data)
		return names, ignored, err
	})
	if ctx.Err() != nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.providers[id]
	p.due = now.Add(fresh)
	if pricesFrom.broken || modelsFrom.broken {
		p.due = now.Add(again)
	}
	file, _ := prices.(*File)
	names, _ := models.([]string)
	a := p.prices.replace(file, pricesFrom, now, func(a, b *File) bool { return sameRows(a, b) })
	if a {
		k.book = nil
	}
	b := p.models.replace(names, modelsFrom, now, func(a, b []string) bool { return slices.Equal(a, b) })
	return a || b
}

// reading is the outcome of reading one file from its sources.
type reading struct {
	source  string // that has it; empty for none
	failed  bool   // none has it and one failed
	broken  bool   // a source failed
	ignored map[string]int
}

// replace keeps what was read, unless every source failed. It reports whether the
// value changed.
func (h *fileState[T]) replace(value T, r reading, now time.Time, same func(a, b T) bool) bool {
	if r.failed {
		return false
	}
	changed := !same(h.value, value)
	h.value, h.source, h.read, h.ignored = value, r.source, now, r.ignored
	return changed
}

func sameRows(a, b *File) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Rows, b.Rows, func(p, q catalog.Price) bool {
		return p.Model == q.Model && p.Batch == q.Batch && p.SameFigures(&q)
	})
}

// read returns the file of the first source that has a good one.
func (k *Keeper) read(ctx context.Context, kind string, sources []Source, id string,
	parse func([]byte) (any, map[string]int, error)) (value any, r reading) {
	for _, s := range sources {
		data, err := readFile(ctx, s, id)
		if errors.Is(err, fs.ErrNotExist) {
			k.note(kind, s.Name, id, nil)
			continue
		}
		if err == nil {
			value, r.ignored, err = parse(data)
		}
		if ctx.Err() != nil {
			return nil, reading{failed: true, broken: true}
		}
		k.note(kind, s.Name, id, err)
		if err == nil {
			r.source, r.failed = s.Name, false
			return value, r
		}
		r.failed, r.broken = true, true
	}
	return nil, r
}

// readFile reads a file completely, in bounded time and memory.
func readFile(ctx context.Context, s Source, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	in, err := s.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	return data, cmp.Or(err, ctx.Err())
}

// note records the outcome of reading from a source and logs when it changes.
func (k *Keeper) note(kind, source, id string, err error) {
	k.mu.Lock()
	if k.faults == nil {
		k.faults = make(map[[2]string]string)
	}
	at := [2]string{kind + " from " + source, id}
	before := k.faults[at]
	now := ""
	if err != nil {
		now = err.Error()
	}
	k.faults[at] = now
	k.mu.Unlock()
	switch {
	case k.Logger == nil || before == now:
	case now != "":
		k.Logger.Warn("price source broken; using the next source or the last good file", "kind", kind, "source", source, "provider", id,
			"err", now)
	default:
		k.Logger.Info("price source recovered", "kind", kind, "source", source, "provider", id)
	}
}

// Book returns the prices that are kept, which take precedence over those of under.
func (k *Keeper) Book(under *catalog.PriceBook) *catalog.PriceBook {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.book != nil {
		return k.book
	}
	var rows []catalog.Price
	for _, id := range slices.Sorted(maps.Keys(k.providers)) {
		if f := k.providers[id].prices.value; f != nil {
			rows = append(rows, f.Rows...)
		}
	}
	k.book = catalog.NewBook(rows, under)
	return k.book
}

// Models returns the models that capabilities files list, by provider. Callers must
// not change it.
func (k *Keeper) Models() map[string][]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[string][]string)
	for id, p := range k.providers {
		if p.models.value != nil {
			out[id] = p.models.value
		}
	}
	return out
}

// Status is the state of one file of a provider.
type Status struct {
	Provider string            `json:"provider"`
	Kind     string            `json:"kind"`             // pricing or capabilities
	Source   string            `json:"source"`           // that the file came from; "built in" for none
	Read     time.Time         `json:"read,omitzero"`    // when
	Models   int               `json:"models"`           // in it
	Broken   map[string]string `json:"broken,omitempty"` // faults by source, at the last reading
	Ignored  map[string]int    `json:"ignored,omitempty"`
}

// Status returns the state of every file, by provider and kind.
func (k *Keeper) Status() []Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := []Status{}
	for _, id := range slices.Sorted(maps.Keys(k.providers)) {
		p := k.providers[id]
		if len(k.Prices) > 0 {
			n := 0
			if p.prices.value != nil {
				n = len(p.prices.value.Rows)
			}
			list = append(list,
				Status{id, "pricing", cmp.Or(p.prices.source, "built in"), p.prices.read, n, k.broken("pricing", k.Prices, id), p.prices.ignored})
		}
		if len(k.Capabilities) > 0 {
			list = append(list,
				Status{id, "capabilities", cmp.Or(p.models.source, "built in"), p.models.read, len(p.models.value),
					k.broken("capabilities", k.Capabilities, id), p.models.ignored})
		}
	}
	return list
}

// broken returns the faults of sources for a provider. The caller holds mu.
func (k *Keeper) broken(kind string, sources []Source, id string) map[string]string {
	out := make(map[string]string)
	for _, s := range sources {
		if fault := k.faults[[2]string{kind + " from " + s.Name, id}]; fault != "" {
			out[s.Name] = fault
		}
	}
	return out
}

// Broken returns the number of files that a source failed to give at the last
// reading.
func (k *Keeper) Broken() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, fault := range k.faults {
		if fault != "" {
			n++
		}
	}
	return n
}
