package dataplane

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider"
)

// requestOptions holds the values of the gateway's own request headers.
type requestOptions struct {
	provider   string // as sent: an id, an alias or @slug
	virtualKey string
	config     string
	customHost string
	timeout    time.Duration // from the arrival of the request to the end of its response; zero means none
	attempt    time.Duration // until the response of an attempt is usable; zero means none
	forward    []string
	options    map[string]string // provider options by their config names
	headers    map[string]string // option headers that no target has accepted yet, with their options
	// passThrough sends a path to the provider that is the name of a route of the
	// gateway's own administration.
	passThrough bool

	strict *bool  // strict_vendora_compliance; nil means that the config decides
	prefix string // the header prefix used, if it is not the gateway's own
}

// namesTarget reports whether a provider is named.
func (w *requestOptions) namesTarget() bool {
	return w.provider != "" || w.virtualKey != "" || w.config != "" || w.customHost != ""
}

// namesProvider reports whether the headers choose the provider.
func (w *requestOptions) namesProvider() bool { return w.provider != "" || w.virtualKey != "" }

// readOptionHeaders reads the gateway's headers. A duplicate of a header that
// may occur once is an error, since servers disagree on which value wins.
func (a *admission) readOptionHeaders() error {
	for name, values := range a.request.Received.Header {
		if !strings.HasPrefix(name, api.HeaderPrefix) {
			if option, ok := a.snap.OptionOf(name); ok && len(values) == 1 {
				a.opts.set(option, values[0])
				continue
			}
			suffix, ok := a.cutHeaderPrefix(name)
			if !ok {
				continue
			}
			name = api.HeaderPrefix + suffix
			if _, own := a.request.Received.Header[name]; own { // the gateway's own prefix wins
				continue
			}
		}
		if len(values) > 1 {
			return duplicate(name, len(values))
		}
		if err := a.readOptionHeader(name, values[0]); err != nil {
			return err
		}
	}
	return nil
}

func duplicate(name string, n int) error {
	name = strings.ToLower(name)
	return apierr.New(apierr.Invalid, "the header %s was sent %d times; send it once", name, n).
		WithParam(name).WithCode("duplicate_header")
}

// cutHeaderPrefix removes a header prefix that the settings list in addition to
// the gateway's own.
func (a *admission) cutHeaderPrefix(name string) (suffix string, ok bool) {
	for _, prefix := range a.snap.HeaderPrefixes {
		if suffix, ok = strings.CutPrefix(name, prefix); ok {
			a.opts.prefix = prefix
			return suffix, true
		}
	}
	return "", false
}

// PassesThrough reports whether a request is for a provider although its path is that of
// a route of the gateway.
func (p *Plane) PassesThrough(h http.Header) bool {
	if v := h[api.HeaderPassThrough]; len(v) > 0 {
		return strings.EqualFold(v[0], "true")
	}
	suffix := strings.TrimPrefix(api.HeaderPassThrough, api.HeaderPrefix)
	return slices.ContainsFunc(p.Snapshot.Load().HeaderPrefixes,
		func(prefix string) bool { return strings.EqualFold(h.Get(prefix+suffix), "true") })
}

func (a *admission) readOptionHeader(name, value string) (err error) {
	w, e := &a.opts, a.entry
	switch name {
	case api.HeaderProvider:
		w.provider = value
	case api.HeaderVirtualKey:
		w.virtualKey = value
	case api.HeaderConfig:
		w.config = value
	case api.HeaderCustomHost:
		w.customHost = value
	case api.HeaderTraceID:
		e.TraceID, err = visibleASCII(name, value)
	case api.HeaderSpanID:
		e.SpanID, err = visibleASCII(name, value)
	case api.HeaderParentSpanID:
		e.ParentSpanID, err = visibleASCII(name, value)
	case api.HeaderSpanName:
		e.SpanName, err = visibleASCII(name, value)
	case api.HeaderMetadata:
		a.request.Metadata, err = metadata(value)
	case api.HeaderRequestTimeout:
		w.timeout, err = milliseconds(name, value)
	case api.HeaderAttemptTimeout:
		w.attempt, err = milliseconds(name, value)
	case api.HeaderForwardHeaders:
		w.forward, err = nameList(name, value)
	case api.HeaderStrict:
		w.strict, err = boolHeader(name, value)
	case api.HeaderDebug:
		debug, err := boolHeader(name, value)
		a.skipBodies = debug != nil && !*debug
		return err
	case api.HeaderPassThrough:
		through, err := boolHeader(name, value)
		a.opts.passThrough = through != nil && *through
		return err
	case api.HeaderCacheRefresh:
		refresh, err := boolHeader(name, value)
		a.request.Cache.Refresh = refresh != nil && *refresh
		return err
	case api.HeaderCacheNamespace:
		a.request.Cache.Namespace, err = visibleASCII(name, value)
	case api.HeaderKey: // handled elsewhere
	default:
		w.option(name, value)
	}
	return err
}

// option stores a header that sets a provider option, under the option's name
// in config objects and the provider table.
func (w *requestOptions) option(name, value string) {
	option := strings.ReplaceAll(strings.ToLower(name[len(api.HeaderPrefix):]), "-", "_")
	w.set(option, value)
	if w.headers == nil {
		w.headers = make(map[string]string, 4)
	}
	w.headers[name] = option
}

// markTaken removes the option headers that t accepts from those without
// effect. A managed provider has its own options and accepts none.
func (w *requestOptions) markTaken(t *provider.Target) {
	if t.Slug != "" {
		return
	}
	maps.DeleteFunc(w.headers, func(_, option string) bool { return t.Spec.Takes(option) })
}

// reportIgnored announces the gateway headers that have no effect. They are not
// rejected, since client libraries send headers that this gateway does not
// know.
func (a *admission) reportIgnored() {
	if a.opts.passThrough && a.request.Operation != api.Proxy {
		a.noteIgnored(api.HeaderPassThrough)
	}
	if len(a.opts.headers) == 0 { // almost all requests: nothing to sort
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.opts.headers)) {
		a.noteIgnored(name)
	}
}

// noteIgnored announces that a header or setting has no effect.
func (a *admission) noteIgnored(name string) {
	a.trail.Note(dialect.ParamChange{Name: strings.ToLower(name), Outcome: dialect.Ignored})
}

// noteUnusedCache announces the headers of the cache if nothing was looked up.
func (a *admission) noteUnusedCache() {
	if a.trail.Cache != "" {
		return
	}
	if a.request.Cache.Refresh {
		a.noteIgnored(api.HeaderCacheRefresh)
	}
	if a.request.Cache.Namespace != "" {
		a.noteIgnored(api.HeaderCacheNamespace)
	}
}

func (w *requestOptions) set(option, value string) {
	if w.options == nil {
		w.options = make(map[string]string, 4)
	}
	w.options[option] = value
}

const maxWord = 256

// visibleASCII validates a value that is stored and echoed: visible ASCII, at
// most 256 characters.
func visibleASCII(name, value string) (string, error) {
	bad := strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' })
	if bad >= 0 || len(value) > maxWord {
		return "", apierr.New(apierr.Invalid, "the header %s must be at most %d visible ASCII characters long", strings.ToLower(name), maxWord).
			WithParam(strings.ToLower(name))
	}
	return value, nil
}

func milliseconds(name, value string) (time.Duration, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > int64(24*time.Hour/time.Millisecond) {
		return 0, apierr.New(apierr.Invalid, "the header %s must be milliseconds from 0 (no limit) to 86400000, not %.40q",
			strings.ToLower(name), value).
			WithParam(strings.ToLower(name))
	}
	return time.Duration(n) * time.Millisecond, nil
}

// nameList parses a list of header names: a JSON array, or separated by commas.
func nameList(name, value string) ([]string, error) {
	var list []string
	if strings.HasPrefix(strings.TrimSpace(value), "[") {
		if err := json.Unmarshal([]byte(value), &list); err != nil {
			return nil, apierr.New(apierr.Invalid, "the header %s must list header names, comma-separated or as a JSON array",
				strings.ToLower(name)).
				WithParam(strings.ToLower(name))
		}
		return list, nil
	}
	for n := range strings.SplitSeq(value, ",") {
		if n = strings.TrimSpace(n); n != "" {
			list = append(list, n)
		}
	}
	return list, nil
}

// metadata parses a JSON object with string values. Numbers and booleans keep
// their spelling.
func metadata(value string) (map[string]string, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(value), &raw); err != nil || raw == nil {
		return nil, metadataError("x-gateway-metadata must be a JSON object with string values")
	}
	var doc jsonedit.Doc
	if err := doc.Scan([]byte(value)); err != nil {
		e := apierr.New(apierr.Invalid, "x-gateway-metadata: %v", err).WithParam("x-gateway-metadata")
		if _, ok := errors.AsType[*jsonedit.DuplicateKeyError](err); ok {
			e = e.WithCode("duplicate_key")
		}
		return nil, e
	}
	out := make(map[string]string, len(raw))
	for k, v := range raw {
		var s string
		switch v[0] {
		case '{', '[', 'n':
			return nil, metadataError("x-gateway-metadata: the value of " + strconv.Quote(k) + " must be a string")
		case '"':
			if err := json.Unmarshal(v, &s); err != nil {
				return nil, metadataError("x-gateway-metadata must be a JSON object with string values")
			}
		default:
			s = string(v)
		}
		if utf8.RuneCountInString(s) > api.MaxMetadataValue {
			return nil, metadataError("x-gateway-metadata: the value of " + strconv.Quote(k) + " has more than " +
				strconv.Itoa(api.MaxMetadataValue) + " characters")
		}
		out[k] = s
	}
	return out, nil
}

func metadataError(text string) error {
	return apierr.New(apierr.Invalid, "%s", text).WithParam("x-gateway-metadata")
}

// trace sets the trace: from the gateway's own headers, otherwise from W3C
// traceparent, otherwise a new id, which is the request's own.
func (a *admission) trace() { a.traceFrom(a.request.Received.Header) }

// traceFrom sets the trace as far as it is unknown, with the traceparent in h.
func (a *admission) traceFrom(h http.Header) {
	e := a.entry
	if trace, parent, flags, ok := traceParent(h); ok {
		e.TraceID = cmp.Or(e.TraceID, trace)
		e.ParentSpanID = cmp.Or(e.ParentSpanID, parent)
		e.SpanID = cmp.Or(e.SpanID, e.ID.Span())
		if !a.route.tools { // whose spans are named by what they call
			e.SpanName = cmp.Or(e.SpanName, truncate(e.Method+" "+a.request.Received.HideKeys(e.Path)))
		}
		e.TraceFlags = flags
	}
	if e.TraceID == "" {
		e.TraceID = a.id
	}
	a.request.TraceID, a.request.TraceFlags = e.TraceID, e.TraceFlags
}

// traceParent parses a W3C traceparent header (Trace Context, section 3.2). A
// malformed one, or one of zeros, is ignored, as the standard requires.
func traceParent(h http.Header) (trace, parent, flags string, ok bool) {
	v := h[api.HeaderTraceParent]
	if len(v) != 1 || len(v[0]) < 55 {
		return "", "", "", false
	}
	s := v[0]
	if s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" || len(s) > 55 && (s[:2] == "00" || s[55] != '-') {
		return "", "", "", false
	}
	trace, parent, flags = s[3:35], s[36:52], s[53:55]
	if !lowerHex(s[:2]) || !lowerHex(flags) || !lowerHex(trace) || !lowerHex(parent) ||
		strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "" {
		return "", "", "", false
	}
	return trace, parent, flags, true
}

func lowerHex(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && strings.ToLower(s) == s
}
