package checks

import (
	"context"
	"strings"
	"testing"
)

// askedContext is a context that ends when it has been asked a number of times.
type askedContext struct {
	context.Context
	left int
}

func (c *askedContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestSearchesOfLongTextsCanBeInterrupted searches 10 MB with a context that ends after
// it has been asked a few times.
func TestSearchesOfLongTextsCanBeInterrupted(t *testing.T) {
	long := strings.Repeat("call nobody at 12 34 about Ann and the order of today ", 200_000)
	for name, finders := range map[string][]finder{"personal data": personal, "secrets": secrets} {
		if spans, err := findAll(&askedContext{t.Context(), 3}, finders, long, 384); err == nil {
			t.Errorf("the search for %s went on and found %d places", name, len(spans))
		}
	}
	p, err := compilePattern("rule", "[a-z]+ [xyz]+[0-9]+")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := p.find(&askedContext{t.Context(), 3}, long); err == nil {
		t.Errorf("the search for a pattern went on and found %v", found)
	}
}
