package dialects

import (
	"encoding/json"
	"strings"
)

// formed checks that the response is the object that was asked for.
func (c *cell) formed() {
	c.Helper()
	var m object
	if err := json.Unmarshal([]byte(c.h.all(text)), &m); err != nil || str(m, "city") == "" || len(c.h.calls()) > 0 {
		c.Errorf("the response is not the object asked for: %v in %+v", err, c.h.pieces)
	}
	c.stopped(endStop)
}

func schemaCase(c *cell) string {
	q := hello
	q.schema = true
	c.checkResponse(q, "")
	fate := c.fate()
	if fate != dropped {
		c.formed()
	}
	return fate
}

// crowdedCase asks for a form with tools next to it, which have been called.
func crowdedCase(c *cell) string {
	q := loop(false)
	q.schema = true
	c.checkResponse(q, "")
	fate := c.fate()
	if fate != dropped && len(c.h.calls()) == 0 && c.h.all(text) != "" && !strings.HasPrefix(c.h.all(text), "echo") {
		c.formed()
	}
	return fate
}

func sequenceCase(c *cell) string {
	q := ask{turns: []turn{user(textPiece("alpha omega beta"))}, stops: []string{"omega"}}
	c.checkResponse(q, "")
	fate := c.fate()
	if said := c.h.all(text); fate == ok && said != "echo: alpha " {
		c.Errorf("text = %q", said)
	}
	if fate == ok && c.h.stop != stops[c.client.name][sequenceStop] && c.h.stop != stops[c.client.name][endStop] {
		c.stopped(sequenceStop)
	}
	return fate
}

func lengthCase(c *cell) string {
	q := hello
	q.limit = 20
	c.checkResponse(q, "")
	if said := c.h.all(text); len(said) != 80 {
		c.Errorf("%d bytes: %q", len(said), said)
	}
	c.stopped(lengthStop)
	return c.fate()
}

func refusalCase(c *cell) string {
	c.checkResponse(hello, "refusal")
	c.refusedStop()
	if said := c.h.all(text) + c.h.all(refusal); said == "" && c.to.dialect != "gemini" {
		return dropped // the words; the stop says it. Gemini has none
	}
	return c.fate()
}

// refusedStop asks for the stop of a refusal, or, where the provider has none,
// that of the end.
func (c *cell) refusedStop() {
	c.Helper()
	end := c.h.stop == stops[c.client.name][endStop] && (c.to.dialect == "cohere" || c.h.all(refusal) != "")
	if !end {
		c.stopped(refusalStop)
	}
}

func cachedCase(c *cell) string {
	c.checkResponse(hello, "tokens=32")
	plain := c.h.prompt
	c.checkResponse(hello, "cached=5+cache-write=7+tokens=32")
	c.expect("cached", c.h.cached, 5)
	c.expect("completion", c.h.completion, 32)
	if c.h.prompt != plain+12 {
		c.Errorf("prompt = %d, without caches %d", c.h.prompt, plain)
	}
	if c.h.written != 7 {
		return dropped
	}
	return c.fate()
}

func markedCase(c *cell) string {
	q := ask{mark: true, turns: []turn{user(textPiece("A long text"), textPiece("and a question"))}}
	r := c.reported(q, "")
	c.expect("text", strings.ReplaceAll(r.Texts[0], "\n", ""), "A long textand a question")
	if fate := c.fate(); r.CachePoints > 0 || fate != ok {
		return fate
	}
	return dropped
}

func (c *cell) errors(fault string, status int) string {
	c.send(hello, fault)
	if c.res.Status != status || c.h.fault == "" {
		c.Errorf("status %d, %q; want %d", c.res.Status, c.h.fault, status)
	}
	if strings.Contains(fault, "retry-after") && c.res.Header.Get("Retry-After") != "7" {
		c.Error("Retry-After is lost")
	}
	return ok
}

// broken asks for an error in the client's dialect inside a stream that began.
func (c *cell) broken(fault string) string {
	c.send(hello, fault)
	if c.res.Status != 200 || c.h.fault == "" || c.h.ended || !strings.HasPrefix(c.h.all(text), "echo") {
		c.Errorf("status %d, fault %q, ended %t, text %q\n%s", c.res.Status, c.h.fault, c.h.ended, c.h.all(text), c.res.Body)
	}
	return ok
}
