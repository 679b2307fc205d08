package api

// HeaderPrefix is the prefix of the gateway's own headers, in the canonical
// form of net/http.
const HeaderPrefix = "X-Gateway-"

// Request headers, in canonical form, so that they index an http.Header
// directly. See the specification's part Authentication.
const (
	HeaderKey            = "X-Gateway-Api-Key"
	HeaderProvider       = "X-Gateway-Provider"
	HeaderVirtualKey     = "X-Gateway-Virtual-Key"
	HeaderConfig         = "X-Gateway-Config"
	HeaderCustomHost     = "X-Gateway-Custom-Host"
	HeaderTraceID        = "X-Gateway-Trace-Id"
	HeaderSpanID         = "X-Gateway-Span-Id"
	HeaderParentSpanID   = "X-Gateway-Parent-Span-Id"
	HeaderSpanName       = "X-Gateway-Span-Name"
	HeaderMetadata       = "X-Gateway-Metadata"
	HeaderRequestTimeout = "X-Gateway-Request-Timeout"
	HeaderAttemptTimeout = "X-Gateway-Attempt-Timeout"
	HeaderForwardHeaders = "X-Gateway-Forward-Headers"
	HeaderCacheRefresh   = "X-Gateway-Cache-Force-Refresh"
	HeaderCacheNamespace = "X-Gateway-Cache-Namespace"
	HeaderStrict         = "X-Gateway-Strict-Vendora-Compliance"
	HeaderDebug          = "X-Gateway-Debug"
	HeaderPassThrough    = "X-Gateway-Pass-Through"
)

// Response headers, in canonical form.
const (
	HeaderRequestID   = "X-Gateway-Request-Id"
	HeaderModel       = "X-Gateway-Model"
	HeaderOptionIndex = "X-Gateway-Last-Used-Option-Index"
	HeaderRetryCount  = "X-Gateway-Retry-Attempt-Count"
	HeaderCacheStatus = "X-Gateway-Cache-Status"
	HeaderOverhead    = "X-Gateway-Overhead-Us"
	HeaderParams      = "X-Gateway-Params"
	HeaderTraceParent = "Traceparent"
	// HeaderStale is set in responses with a batch whose provider was asked for its state and
	// did not say it: the age of the state that the response has, in seconds.
	HeaderStale = "X-Gateway-Stale"

	// HeaderAppliedWithin is set in responses to changes if several nodes can share the
	// database.
	HeaderAppliedWithin = "X-Gateway-Applied-Within-Ms"
	HeaderAccelBuffers  = "X-Accel-Buffering"
)

// CookiePrefix is the prefix of the names of the gateway's own cookies.
const CookiePrefix = "mg_"
