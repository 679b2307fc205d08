package peer

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/provider/toolserver/openapi"
	"modelgate/internal/upstream"
)

// Limits of APIs that are servers by their documents.
const (
	maxAPIBody  = 4 << 20       // of a response, in bytes
	apiListTime = 10_000        // in milliseconds, that a list is fresh
	apiType     = "openapi-api" // the name of an API without a title
)

// sendAPI answers the message of a call to an API, in the modern era: everything but calls of
// tools by what its document says.
func (p *Peers) sendAPI(ctx context.Context, c *Call) (Reply, error) {
	var m, params jsonedit.Doc
	if err := m.Scan(c.Message); err != nil {
		return nil, &Failure{Kind: Refused, Unsent: true, Err: err,
			Reason: "the message must be a JSON object whose members have different names"}
	}
	id, isRequest := m.Find("id")
	if !isRequest {
		return endedReply{}, nil
	}
	doc, failure := p.documents.of(c.Server)
	if failure != nil {
		return nil, failure
	}
	if v, ok := m.Find("params"); ok {
		if err := params.Scan(v.Raw()); err != nil {
			return apiError(id.Raw(), jsonrpc.InvalidParams, "params must be an object whose members have different names"), nil
		}
	}
	method, _ := m.Find("method")
	switch name, _ := method.Text(); name {
	case "server/discover":
		return apiResult(id.Raw(), http.StatusOK, describeAPI(c.Server, doc)), nil
	case "tools/list":
		return apiResult(id.Raw(), http.StatusOK, listAPI(doc)), nil
	case "tools/call":
		name, _ := params.Find("name")
		text, _ := name.Text()
		tool := doc.Tool(text)
		if tool == nil {
			return apiError(id.Raw(), jsonrpc.InvalidParams, "unknown tool"), nil
		}
		arguments, _ := params.Find("arguments")
		return p.callAPI(ctx, c, id.Raw(), func() (*openapi.Request, error) { return tool.Request(c.Server.URL, arguments.Raw()) })
	case listenMethod:
		return nil, muteFailure()
	}
	return apiError(id.Raw(), jsonrpc.MethodNotFound, "the method is not supported"), nil
}

// describeAPI returns the result of server/discover.
func describeAPI(s *toolserver.Server, doc *openapi.Document) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("resultType")
	b.String("complete")
	b.Name("supportedVersions")
	b.Open('[')
	b.String(ModernVersion)
	b.Close(']')
	b.Name("capabilities")
	b.Raw([]byte(`{"tools":{}}`))
	apiFreshness(&b)
	b.Name("_meta")
	b.Open('{')
	b.Name("io.modelcontextprotocol/serverInfo")
	b.Open('{')
	b.Name("name")
	b.String(s.Slug)
	b.Name("title")
	if doc.Title != "" {
		b.String(doc.Title)
	} else {
		b.String(apiType)
	}
	b.Name("version")
	b.String(doc.Version)
	b.Close('}')
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// listAPI returns the result of tools/list.
func listAPI(doc *openapi.Document) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("resultType")
	b.String("complete")
	b.Name("tools")
	b.Open('[')
	for _, t := range doc.Tools {
		b.Raw(t.Definition)
	}
	b.Close(']')
	apiFreshness(&b)
	b.Close('}')
	return b.Bytes()
}

// apiFreshness writes how long a result is fresh: all callers get the same.
func apiFreshness(b *jsonedit.Builder) {
	b.Name("ttlMs")
	b.Int(apiListTime)
	b.Name("cacheScope")
	b.String("public")
}

// callAPI sends the request of a call and returns its response as the result of a tool. The API
// is not asked while its breaker is open, and for arguments that make no request.
func (p *Peers) callAPI(ctx context.Context, c *Call, id []byte, request func() (*openapi.Request, error)) (Reply, error) {
	r, err := request()
	if err != nil {
		return apiResult(id, http.StatusOK, toolText("the arguments are invalid: "+err.Error(), true)), nil
	}
	b := p.breakers.of(c.Server)
	if failure := b.allow(time.Now()); failure != nil {
		return nil, failure
	}
	h, fixed := r.Header, baseHeader(c)
	delete(fixed, "Content-Type") // that of the body
	maps.Copy(h, fixed)           // no argument replaces what the integration sets
	reply, err := withCredential(ctx, c, h, func(h http.Header) (*apiReply, error) {
		r.Header = h
		reply, failure := p.askAPI(ctx, c, id, r)
		if failure != nil {
			return nil, failure
		}
		return reply, nil
	})
	failure, _ := errors.AsType[*Failure](err)
	switch {
	case failure == nil && isUnavailable(reply.status):
		b.report(false, &Failure{Reason: "the API of the tool server is unavailable (status 502, 503 or 504)"}, time.Now())
	case failure == nil || failure.Status != 0:
		b.report(true, nil, time.Now())
	case failure.Kind == Unreachable:
		b.report(false, failure, time.Now())
	default:
		b.release()
	}
	if failure != nil {
		return nil, failure
	}
	return reply, nil
}

// isUnavailable reports whether a status says that an API cannot be reached: another 5xx may be due to
// the arguments of one call.
func isUnavailable(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// askAPI sends a request to an API and reads the response.
func (p *Peers) askAPI(ctx context.Context, c *Call, id []byte, r *openapi.Request) (*apiReply, *Failure) {
	watch := upstream.NewWatchdog(ctx, timeouts(c.Server))
	defer watch.Stop()
	req := (&http.Request{Method: r.Method, URL: r.URL, Header: r.Header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).
		WithContext(watch.Context())
	if r.Body != nil {
		body := &message{bytes: r.Body}
		setBody(req, body)
		defer body.release()
	}
	resp, err := p.client.Do(req, c.Server.Guarded)
	if err != nil {
		return nil, connectionFailure(ctx, req, err)
	}
	defer resp.Body.Close()
	if status := resp.StatusCode; status < 400 || status == http.StatusUnauthorized || c.Credential.Renew != nil && wantsScope(resp) {
		if failure := statusFailure(resp, false); failure != nil {
			return nil, failure
		}
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, invalid(resp.StatusCode, "the tool server compressed its response, which was not asked for", nil)
	}
	watch.Phase(upstream.Idle)
	limit := min(maxAPIBody, p.maxMessage)
	if resp.StatusCode >= 400 {
		limit = maxAPIError
	}
	body, failure := p.readAPI(ctx, req, resp, limit)
	if failure != nil {
		return nil, failure
	}
	reply := apiResult(id, resp.StatusCode, resultOfAPI(resp, body.Bytes()))
	reply.body = body
	return reply, nil
}

// wantsScope reports whether a response says that the credential needs further scopes.
// https://www.rfc-editor.org/rfc/rfc6750#section-3.1
func wantsScope(resp *http.Response) bool {
	return resp.StatusCode == http.StatusForbidden &&
		toolauth.Challenge(strings.Join(resp.Header["Www-Authenticate"], ", "))["error"] == "insufficient_scope"
}

// readAPI reads the body of a response. That of an error is cut at the limit.
func (p *Peers) readAPI(ctx context.Context, req *http.Request, resp *http.Response, limit int) (*bytepool.Buffer, *Failure) {
	var from io.Reader = resp.Body
	length := resp.ContentLength
	if req.Method == http.MethodHead {
		length = 0 // what a GET would have
	}
	if resp.StatusCode >= 400 {
		from, length = io.LimitReader(from, int64(limit)), min(length, int64(limit))
	}
	body, err := p.bodies.ReadAll(from, length, int64(limit))
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, bytepool.ErrTooLarge):
		return nil, invalid(resp.StatusCode, "the response of the tool server is larger than 4 MB", err)
	case errors.Is(err, bytepool.ErrBudget):
		return nil, &Failure{Kind: Unavailable, Reason: "the gateway has no memory for the response; try again later", Err: err}
	}
	return nil, connectionFailure(ctx, req, err)
}

// apiReply is a reply of one message, which the gateway wrote itself.
type apiReply struct {
	message []byte
	status  int
	body    *bytepool.Buffer // of the API; nil for none
	done    bool
}

func (r *apiReply) Next() ([]byte, error) {
	if r.done {
		return nil, io.EOF
	}
	r.done = true
	return r.message, nil
}

func (r *apiReply) Status() int   { return r.status }
func (r *apiReply) Streams() bool { return false }

func (r *apiReply) Close() {
	r.done = true
	if r.body != nil {
		r.body.Release()
		r.body = nil
	}
}

// apiResult returns the reply with a result.
func apiResult(id []byte, status int, result []byte) *apiReply {
	return &apiReply{status: status, message: jsonrpc.Response(id, "result", result)}
}

// apiError returns the reply with an error of JSON-RPC.
func apiError(id []byte, code int, text string) *apiReply {
	return &apiReply{status: http.StatusOK, message: (&jsonrpc.Error{Code: code, Message: text}).Response(id)}
}
