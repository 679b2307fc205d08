package pricing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/pricing"
)

// fakeSource is a source whose content tests change.
type fakeSource struct {
	mu    sync.Mutex
	text  string
	err   error
	reads int
}

func (f *fakeSource) source(name string) pricing.Source {
	return pricing.Source{Name: name, Read: func(context.Context, string) (io.ReadCloser, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.reads++
		if f.err != nil {
			return nil, f.err
		}
		return io.NopCloser(strings.NewReader(f.text)), nil
	}}
}

// priceFile returns a pricing file whose model gpt-x costs cents per input token.
func priceFile(cents float64) string {
	return fmt.Sprintf(`{"gpt-x":{"pricing_config":{"pay_as_you_go":{"request_token":{"price":%v},"response_token":{"price":%v}}}}}`, cents, cents)
}

// underlying has the built-in prices.
var underlying = catalog.NewBook([]catalog.Price{
	{Provider: "openai", Model: "gpt-x", Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 1e6})},
	{Provider: "openai", Model: "gpt-y", Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 9e6})},
}, nil)

// input returns the price of a million tokens, in dollars; -1 if it is unknown.
func input(k *pricing.Keeper) float64 {
	p, ok := k.Book(underlying).Price("openai", "gpt-x", time.Now())
	if !ok {
		return -1
	}
	return float64(p.Rates[catalog.Input]) / 1e6
}

func TestPricesAreReadAgainAfterAnHour(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	f := &fakeSource{text: priceFile(0.0002)}
	changes := 0
	k := &pricing.Keeper{Prices: []pricing.Source{f.source("proxy")}, Now: func() time.Time { return now }, Changed: func() { changes++ }}
	k.Refresh(t.Context())
	if f.reads != 0 {
		t.Fatalf("%d reads of providers that nobody uses", f.reads)
	}
	k.Use([]string{"openai"})
	k.Refresh(t.Context())
	if got := input(k); f.reads != 1 || got != 2 || changes != 1 {
		t.Fatalf("%d reads and %d changes, %v dollars; want 1, 1 and 2", f.reads, changes, got)
	}
	f.text = priceFile(0.0003)
	now = now.Add(59 * time.Minute)
	k.Refresh(t.Context())
	if got := input(k); f.reads != 1 || got != 2 {
		t.Errorf("after 59 minutes %d reads and %v dollars, want 1 and 2", f.reads, got)
	}
	now = now.Add(2 * time.Minute)
	k.Refresh(t.Context())
	if got := input(k); f.reads != 2 || got != 3 || changes != 2 {
		t.Errorf("after 61 minutes %d reads, %d changes and %v dollars, want 2, 2 and 3", f.reads, changes, got)
	}
}

func TestTheNextSourceIsUsedAndTheLastGoodStays(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	proxy, store, local := &fakeSource{text: priceFile(0.0002)}, &fakeSource{text: priceFile(0.0003)}, &fakeSource{text: priceFile(0.0004)}
	k := &pricing.Keeper{Prices: []pricing.Source{proxy.source("proxy"), store.source("log store"), local.source("local")}, Now: func() time.Time { return now }}
	k.Use([]string{"openai"})
	broken := errors.New("the proxy responded with status 500")
	for _, tt := range []struct {
		name   string
		set    func()
		want   float64
		source string
		broken []string
	}{
		{"all work", func() {}, 2, "proxy", nil},
		{"the proxy is broken", func() { proxy.err = broken }, 3, "log store", []string{"proxy"}},
		{"the log store has no file", func() { store.err = fs.ErrNotExist }, 4, "local", []string{"proxy"}},
		{"the log store is unreadable", func() { store.err, store.text = nil, "[]" }, 4, "local", []string{"log store", "proxy"}},
		{"all are broken", func() { local.text = `{"gpt-x":{"pricing_config":{"pay_as_you_go":{"request_token":{"price":-1}}}}}` }, 4, "local", []string{"local", "log store", "proxy"}},
		{"the proxy works again", func() { proxy.err = nil }, 2, "proxy", []string{"local", "log store"}},
		{"none has a file", func() { proxy.err, store.err, local.err = fs.ErrNotExist, fs.ErrNotExist, fs.ErrNotExist }, 1, "built in", nil},
	} {
		tt.set()
		k.Refresh(t.Context())
		status := k.Status()[0]
		var names []string
		for name := range status.Broken {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := input(k); got != tt.want || status.Source != tt.source || !slices.Equal(names, tt.broken) {
			t.Errorf("%s: %v dollars from %s, broken %v; want %v, %s, %v", tt.name, got, status.Source, names, tt.want, tt.source, tt.broken)
		}
		if p, ok := k.Book(underlying).Price("openai", "gpt-y", now); !ok || p.Rates[catalog.Input] != 9e6 {
			t.Errorf("%s: a model that no file has costs %+v (known: %t), want its built-in price", tt.name, p, ok)
		}
		now = now.Add(time.Hour + time.Minute)
	}
}

func TestABrokenSourceIsAskedAgainSoon(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	f := &fakeSource{err: errors.New("no")}
	k := &pricing.Keeper{Prices: []pricing.Source{f.source("proxy")}, Now: func() time.Time { return now }}
	k.Use([]string{"openai"})
	k.Refresh(t.Context())
	if k.Broken() != 1 {
		t.Errorf("%d broken files, want 1", k.Broken())
	}
	f.err, f.text = nil, priceFile(0.0002)
	now = now.Add(5 * time.Minute)
	k.Refresh(t.Context())
	if got := input(k); got != 2 || k.Broken() != 0 {
		t.Errorf("%v dollars and %d broken files after five minutes, want 2 and 0", got, k.Broken())
	}
}

// A reader that never ends must cost neither memory nor time.
func TestReadingIsBounded(t *testing.T) {
	endless := pricing.Source{Name: "proxy", Read: func(context.Context, string) (io.ReadCloser, error) {
		return io.NopCloser(zeros{}), nil
	}}
	k := &pricing.Keeper{Prices: []pricing.Source{endless}}
	k.Use([]string{"openai"})
	k.Refresh(t.Context())
	if got := k.Status()[0].Broken["proxy"]; !strings.Contains(got, "longer than 8 MB") {
		t.Errorf("the fault is %q, want one of the size", got)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestCapabilitiesListModelsAndNameWhatIsIgnored(t *testing.T) {
	f := &fakeSource{text: `{"name":"OpenAI","default":{"params":[]},"gpt-x":{"type":{"primary":"chat"},"params":[{"key":"max_tokens","maxValue":10}]},"gpt-y":{}}`}
	k := &pricing.Keeper{Capabilities: []pricing.Source{f.source("local")}}
	k.Use([]string{"openai"})
	k.Refresh(t.Context())
	if got := k.Models()["openai"]; !slices.Equal(got, []string{"gpt-x", "gpt-y"}) {
		t.Errorf("models %v, want gpt-x and gpt-y", got)
	}
	if got := k.Status()[0].Ignored; got["params"] != 1 || got["type"] != 1 {
		t.Errorf("ignored %v, want params and type", got)
	}
}
