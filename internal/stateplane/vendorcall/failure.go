package vendorcall

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"modelgate/internal/base/apierr"
)

// Failure is the cause of an error: a response of a vendor with an error status.
type Failure struct {
	Status  int
	Message string // from the vendor's body, shortened; empty if it has none
	Param   string // parameter that the vendor names; empty for none
}

// Error returns the status and the message.
func (f *Failure) Error() string {
	return strings.TrimSpace("status " + strconv.Itoa(f.Status) + " " + f.Message)
}

// Statuses that say the same at every vendor. Others of 400 and above are invalid
// requests, those of 500 and above failures of the vendor.
var kinds = map[int]apierr.Kind{
	http.StatusUnauthorized:          apierr.UpstreamFailed,
	http.StatusForbidden:             apierr.UpstreamFailed,
	http.StatusNotFound:              apierr.NotFound,
	http.StatusRequestTimeout:        apierr.UpstreamTimeout,
	http.StatusConflict:              apierr.Conflict,
	http.StatusRequestEntityTooLarge: apierr.TooLarge,
	http.StatusTooManyRequests:       apierr.RateLimited,
	http.StatusNotImplemented:        apierr.Unsupported,
	http.StatusServiceUnavailable:    apierr.Unavailable,
	http.StatusGatewayTimeout:        apierr.UpstreamTimeout,
	529:                              apierr.Unavailable, // overloaded
}

// failure returns the error of a response with an error status.
func (c Client) failure(r *Response, body []byte) error {
	f := &Failure{Status: r.Status}
	f.Message, f.Param = messageOf(body)
	kind, ok := kinds[r.Status]
	switch {
	case ok:
	case r.Status >= 400 && r.Status < 500:
		kind = apierr.Invalid
	default:
		kind = apierr.UpstreamFailed
	}
	e := apierr.New(kind, "provider %q responded with status %d: %s", c.Provider, r.Status,
		cmp.Or(f.Message, http.StatusText(r.Status), "no message")).WithParam(f.Param).WithCause(f)
	if r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden {
		e.Code = "provider_credential_refused"
	}
	if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds <= 24*60*60 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// messageOf finds the message in the body of an error. Vendors have it in error.message,
// in error, in message, in Message or in detail; Google puts the object into an array.
func messageOf(body []byte) (message, param string) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var b struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"` // Go matches Message too
		Detail  json.RawMessage `json:"detail"`
		Param   string          `json:"param"`
	}
	if json.Unmarshal(body, &b) != nil {
		return "", ""
	}
	var inner struct {
		Message string `json:"message"`
		Param   string `json:"param"`
	}
	if json.Unmarshal(b.Error, &inner) == nil && inner.Message != "" {
		return shorten(inner.Message), shorten(inner.Param)
	}
	return cmp.Or(text(b.Message), text(b.Error), text(b.Detail), details(b.Detail), details(b.Message)), shorten(b.Param)
}

// text returns a JSON string, and nothing for other values.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return shorten(s)
}

// details reads the errors of vendors that validate by schema: a list with a message and
// the place of each.
func details(raw json.RawMessage) string {
	var wrapped struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(raw, &wrapped) == nil && wrapped.Detail != nil {
		raw = wrapped.Detail
	}
	var list []struct {
		Message string `json:"msg"`
		Place   []any  `json:"loc"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return ""
	}
	var all []string
	for _, d := range list[:min(len(list), 3)] {
		var place []string
		for _, p := range d.Place {
			if s, ok := p.(string); ok && s != "body" {
				place = append(place, s)
			}
		}
		all = append(all, strings.TrimPrefix(strings.Join(place, ".")+": "+d.Message, ": "))
	}
	return shorten(strings.Join(all, "; "))
}

const maxMessage = 500 // bytes of a vendor's message that a client sees

// shorten removes control characters, and what is beyond the limit.
func shorten(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxMessage {
		s = s[:maxMessage] + "…"
	}
	return strings.TrimSpace(strings.ToValidUTF8(s, ""))
}
