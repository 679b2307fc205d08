package tools

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
)

// TestOneOrganisationCannotFillTheCatalogue has an organisation whose servers offer more than there
// is room for.
func TestOneOrganisationCannotFillTheCatalogue(t *testing.T) {
	c := newCatalogue(nil, nil)
	c.limit = 3 << 20
	now := time.Unix(0, 0)
	c.now = func() time.Time { now = now.Add(time.Second); return now }
	fill := func(organisation, server string, size int) *offer {
		o := c.offerOf(&toolserver.Server{ID: server, Organisation: organisation}, peer.Credential{})
		o.lists[0] = &list{size: size}
		c.weigh(o)
		return o
	}
	has := func(organisation, server string) bool {
		o := c.entries[catalogueKey{organisation, server, "0", ""}]
		return o != nil && o.lists[0] != nil
	}
	fill("small", "s", 200<<10)
	for n := range 50 {
		fill("large", fmt.Sprint(n), 300<<10)
	}
	if !has("small", "s") || !has("large", "49") || has("large", "0") {
		t.Errorf("small's is there: %t, large's last: %t, large's first: %t", has("small", "s"), has("large", "49"), has("large", "0"))
	}
	if c.total > c.limit || len(c.entries) < 5 {
		t.Errorf("%d offers with %d bytes", len(c.entries), c.total)
	}
	gone := fill("large", "late", 0)
	for n := range 50 {
		fill("large", fmt.Sprint(n), 300<<10)
	}
	gone.lists[0] = &list{size: 2 << 20} // a fetch that ends after its offer was removed
	c.weigh(gone)
	sum := int64(0)
	for _, o := range c.entries {
		sum += o.weight
	}
	if c.total != sum {
		t.Errorf("the total is %d, the sum %d", c.total, sum)
	}
	if fill("small", "huge", 4<<20); !has("small", "huge") || len(c.entries) != 1 {
		t.Errorf("one that is larger than the limit: %t, with %d others", has("small", "huge"), len(c.entries)-1)
	}
}

// TestStoredListsAreWeighed has a server of which only what was stored is known.
func TestStoredListsAreWeighed(t *testing.T) {
	c := newCatalogue(nil, nil)
	definition := []byte(`{"name":"echo","description":"` + strings.Repeat("x", 1000) + `","inputSchema":{"type":"object"}}`)
	l, err := c.stored(t.Context(), &toolserver.Server{ID: "s"}, kindOf(toolserver.Tool), func(context.Context, string) ([]toolserver.FoundItem, error) {
		return []toolserver.FoundItem{{Item: toolserver.Item{Kind: toolserver.Tool, Name: "echo"}, Definition: definition}}, nil
	})
	if err != nil || len(l.items) != 1 || l.size < 1000 || c.total != int64(emptyOffer+l.size) {
		t.Errorf("%+v, %v; the total is %d", l, err, c.total)
	}
}
