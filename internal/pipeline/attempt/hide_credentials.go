package attempt

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/format/contentcoding"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// minSecret is the length in bytes from which a credential is looked for: anything
// shorter would be found in text that does not repeat it.
const minSecret = 8

// hiddenCredential replaces a credential that a provider's error repeats.
const hiddenCredential = "***"

// credentials returns the credentials that the attempt sends and the client did not.
func (a *attempt) credentials() (own []string) {
	texts := []string{a.plan.record.Target.Key.Reveal()}
	for _, value := range a.plan.record.Target.Headers {
		texts = append(texts, value.Reveal())
	}
	if raw := a.response.Raw; raw != nil && raw.Request != nil { // a token that was fetched
		_, token, _ := strings.Cut(raw.Request.Header.Get("Authorization"), " ")
		texts = append(texts, token)
	}
	for _, text := range texts {
		if len(text) >= minSecret && !slices.Contains(own, text) && !sends(a.plan.request, text) {
			own = append(own, text)
		}
	}
	return own
}

// sends reports whether the client's headers contain a text.
func sends(r *exchange.Request, text string) bool {
	for _, values := range r.Received.Header {
		for _, v := range values {
			if strings.Contains(v, text) {
				return true
			}
		}
	}
	return false
}

// hideCredentials removes from a provider's error the credentials that the client does
// not know: some providers repeat what they did not accept.
func (a *attempt) hideCredentials(body []byte) []byte {
	for _, text := range a.credentials() {
		body = hideSpelled(body, text)
		for _, encoded := range encodings(text) {
			body = hideSpelled(body, encoded)
		}
	}
	return body
}

// HideCredentials removes from a provider's response to req, a request for t that no client
// sent, the credentials of t.
func HideCredentials(body []byte, t *provider.Target, req *http.Request) []byte {
	a := attempt{plan: plan{request: new(exchange.Request), record: exchange.Attempt{Target: t}}}
	a.response.Raw = &http.Response{Request: req}
	return a.hideCredentials(body)
}

// hideInHeaders removes the headers of a response that repeat a credential.
func (a *attempt) hideInHeaders(out *exchange.Response) {
	for _, text := range a.credentials() {
		for name, values := range out.Header {
			all := []byte(strings.Join(values, "\n"))
			repeats := func(text string) bool { return len(hideSpelled(all, text)) != len(all) }
			if repeats(text) || slices.ContainsFunc(encodings(text), repeats) {
				out.Header = out.Header.Clone()
				delete(out.Header, name)
			}
		}
	}
}

// hideKeyInHeaders removes the headers of a successful response that repeat a credential as
// it is. It costs a search of the values, and nothing is allocated unless one does.
func (a *attempt) hideKeyInHeaders(out *exchange.Response) {
	for name, values := range out.Header {
		for _, v := range values {
			if len(v) >= minSecret && a.repeatsKey(v) {
				out.Header = out.Header.Clone()
				delete(out.Header, name)
				break
			}
		}
	}
}

// repeatsKey reports whether a text contains a credential that the attempt sent and the
// client did not.
func (a *attempt) repeatsKey(text string) bool {
	repeats := func(key string) bool {
		return len(key) >= minSecret && strings.Contains(text, key) && !sends(a.plan.request, key)
	}
	if repeats(a.plan.record.Target.Key.Reveal()) {
		return true
	}
	for _, value := range a.plan.record.Target.Headers {
		if repeats(value.Reveal()) {
			return true
		}
	}
	if raw := a.response.Raw; raw != nil && raw.Request != nil { // a token that was fetched
		_, token, _ := strings.Cut(raw.Request.Header.Get("Authorization"), " ")
		return repeats(token)
	}
	return false
}

// hideInError removes credentials from an error that passes through. It searches the
// first megabyte only.
func (a *attempt) hideInError(out *exchange.Response) {
	a.hideInHeaders(out)
	body := a.arriving
	raw, err := io.ReadAll(io.LimitReader(&body, maxError))
	rest, plain := a.arriving.src, raw
	if err != nil {
		rest = exchange.BrokenBody{Err: err}
	}
	coding := out.Header.Get("Content-Encoding")
	coded := !contentcoding.IsIdentity(coding)
	if coded {
		plain = decodeAll(coding, raw)
	}
	if shown := a.hideCredentials(plain); !bytes.Equal(shown, plain) {
		out.Edited()
		if raw = shown; coded {
			rest = bytes.NewReader(nil)
		}
	}
	a.arriving.src = io.MultiReader(bytes.NewReader(raw), rest)
}

// decodeAll returns what can be decoded of a compressed error.
func decodeAll(coding string, raw []byte) []byte {
	r, err := contentcoding.NewReader(coding, bytes.NewReader(raw), maxError)
	if err != nil {
		return nil
	}
	defer r.Close()
	plain, _ := io.ReadAll(r)
	return plain
}
