package agents

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
)

func TestCardsOfAnOrganisationMakeRoomForItsOwn(t *testing.T) {
	c := newCards(nil)
	small := &toolserver.Server{ID: "a", Organisation: "small", URL: new(url.URL)}
	large := &toolserver.Server{ID: "b", Organisation: "large", URL: new(url.URL)}
	want := new(card)
	c.keep(small, peer.Credential{}, want)
	for i := range 2 * maxCards {
		c.keep(large, peer.Credential{Key: fmt.Sprint(i)}, new(card))
	}
	if len(c.all) != maxCards || c.entry(small, peer.Credential{}).card != want {
		t.Errorf("%d cards remain, without that of the other organisation", len(c.all))
	}
	if c.entry(large, peer.Credential{Key: fmt.Sprint(2*maxCards - 1)}).card == nil {
		t.Error("the newest card is gone")
	}
}

func TestReadingACardIsShared(t *testing.T) {
	c := newCards(nil) // which cannot read
	s := &toolserver.Server{ID: "a", URL: new(url.URL)}
	running := make(chan struct{})
	c.entry(s, peer.Credential{}).running = running
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := c.of(ctx, s, peer.Credential{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left got %v", err)
	}
	close(running)
	c.entry(s, peer.Credential{}).err = errors.New("no card")
	if _, err := c.of(t.Context(), s, peer.Credential{}); err == nil {
		t.Error("a caller who waited did not get the error of the others")
	}
}

func TestHeldStreamsHaveALimit(t *testing.T) {
	var h buffer
	n := 0
	for ; h.add(event{data: []byte("{}")}) == nil; n++ {
	}
	if n != maxHeldEvents {
		t.Errorf("%d events are held", n)
	}
	h = buffer{}
	for n = 0; h.add(event{data: make([]byte, maxHeld/100-eventSize)}) == nil; n++ {
	}
	if n != 100 {
		t.Errorf("%d large events are held", n)
	}
}
