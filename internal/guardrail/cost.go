package guardrail

import "context"

// memoryOfRequest is the memory in bytes of a request to another service while its
// response is awaited, without bodies.
const memoryOfRequest = 32 << 10

// copies is the number of copies of a text in a request to another service: as it is put
// together, and as it is written.
const copies = 2

// Memory returns the bytes that hooks take while they run: for each request to another
// service, its connection and its copies of what it sends.
func (in *Input) Memory(hooks []*Hook) int {
	n, texts, bodies := 0, -1, -1
	for _, h := range hooks {
		for _, c := range h.Checks {
			switch {
			case c.Disabled || !c.compiled.Remote:
				continue
			case c.compiled.Bodies:
				if bodies < 0 {
					bodies = in.Size()
				}
				n += copies * bodies
			default:
				if texts < 0 {
					texts = in.textSize()
				}
				n += copies * texts
			}
			n += memoryOfRequest
		}
	}
	return n
}

// Size returns the bytes of the bodies of the request and, after it, the response.
func (in *Input) Size() int {
	n := 0
	if in.Request.Body != nil {
		n += sizeOf(in.Request.Body)
	}
	if in.Document != nil && in.Document != in.Request.Body {
		n += sizeOf(in.Document)
	}
	return max(n, in.textSize())
}

func sizeOf(d Document) int {
	raw, _ := d.JSON(nil, nil) // as received, so it cannot fail
	return len(raw)
}

func (in *Input) textSize() (n int) {
	for i := range in.Parts {
		n += len(in.Parts[i].Text)
	}
	return n
}

// hold reserves the memory of hooks until release is called.
func (in *Input) hold(hooks []*Hook) (release func(), err error) {
	n := 0
	if in.Request.Hold != nil && !in.Held {
		n = in.Memory(hooks)
	}
	if n == 0 {
		return func() {}, nil
	}
	return in.Request.Hold(n)
}

// HoldMore counts n more bytes, which a check receives, until ctx ends.
func (in *Input) HoldMore(ctx context.Context, n int) error {
	if in.Request.Hold == nil {
		return nil
	}
	release, err := in.Request.Hold(n)
	if err == nil {
		context.AfterFunc(ctx, release)
	}
	return err
}

// CountRequest counts a request to another service, before it is sent. An error says that
// it must not be sent: the hooks of a config share the attempts of their request.
func (in *Input) CountRequest() error {
	if in.Rank > RankConfig || in.Request.CountRequest == nil {
		return nil
	}
	return in.Request.CountRequest()
}
