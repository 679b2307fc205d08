package pipelinetest

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// Request is a request under test, and what happened to it.
type Request struct {
	exchange.Request
	admitted exchange.Request // as it was when handling began
	Trail    exchange.Trail
	Resolve  func(leaf *config.Config) (*provider.Target, error) // finds targets; nil where they are scripted
}

// NewRequest returns a chat request.
func NewRequest() *Request {
	return &Request{Trail: exchange.Trail{Explain: true}, Request: exchange.Request{
		Time:      time.Now(),
		Client:    chat.Dialect{},
		Operation: api.Chat,
		Received:  exchange.Received{Method: http.MethodPost, Path: "/chat/completions", Header: http.Header{}},
	}}
}

// SetBody gives x a JSON body.
func SetBody(t testing.TB, x *Request, body string) {
	t.Helper()
	x.Received.Doc = new(jsonedit.Doc)
	if err := x.Received.Doc.Scan([]byte(body)); err != nil {
		t.Fatal(err)
	}
}

// Meta returns a change that sets the metadata of a request, pairs of a key and a value.
func Meta(pairs ...string) func(*Request) {
	return func(x *Request) {
		x.Metadata = make(map[string]string)
		for i := 0; i+1 < len(pairs); i += 2 {
			x.Metadata[pairs[i]] = pairs[i+1]
		}
	}
}

// Handle passes the request to h, with its leaves if h is compiled.
func (x *Request) Handle(ctx context.Context, h exchange.Handler) (*exchange.Response, error) {
	if tree, ok := h.(*pipeline.Tree); ok && x.Resolve != nil {
		x.Leaves = make([]exchange.Leaf, len(tree.Leaves))
		for i, leaf := range tree.Leaves {
			x.Leaves[i].Target, x.Leaves[i].Err = x.Resolve(leaf)
			override, _ := leaf.OverrideParams.Text("model")
			standard, _ := leaf.DefaultParams.Text("model")
			x.Leaves[i].Model = cmp.Or(override, x.Model, standard)
		}
	}
	x.admitted = x.Request
	return h.Handle(ctx, &x.Request, &x.Trail)
}

// Unchanged fails if handling has changed the request.
func (x *Request) Unchanged(t testing.TB) {
	t.Helper()
	if !reflect.DeepEqual(x.Request, x.admitted) {
		t.Errorf("handling changed the request to %+v, admitted was %+v", x.Request, x.admitted)
	}
}

// Params returns the header of what was adapted.
func (x *Request) Params() string { return strings.Join(x.Trail.Params(), ", ") }

// Target returns the path of the target that answered last.
func (x *Request) Target() string {
	if x.Trail.Outcome == nil {
		return ""
	}
	return x.Trail.Outcome.Record.Target
}

// Result is the end of a request under test. The response is closed.
type Result struct {
	X       *Request
	Status  int
	Err     *apierr.Error // nil where a response came
	Path    string        // of the target that answered last, as On takes it
	Targets []string      // short paths in the order of the attempts
	Took    time.Duration
}

// Send passes a request to h, which change may change before, and closes the response.
func Send(ctx context.Context, h exchange.Handler, change ...func(*Request)) Result {
	x := NewRequest()
	for _, f := range change {
		f(x)
	}
	began := time.Now()
	res, err := x.Handle(ctx, h)
	out := Result{X: x, Took: time.Since(began), Path: Short(x.Target())}
	if err != nil {
		out.Err = apierr.From(err)
		out.Status = out.Err.Status()
	} else {
		out.Status = res.Status
		res.Close()
	}
	for _, a := range x.Trail.Attempts {
		out.Targets = append(out.Targets, Short(a.Record.Target))
	}
	return out
}

// TargetList returns the targets of the attempts, separated by spaces.
func (r Result) TargetList() string { return strings.Join(r.Targets, " ") }

// HasDecision reports whether the trail has a decision with this text in it.
func (r Result) HasDecision(text string) bool {
	for _, d := range r.X.Trail.Decisions {
		if strings.Contains(d.Text, text) {
			return true
		}
	}
	return false
}
