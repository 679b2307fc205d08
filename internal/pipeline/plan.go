package pipeline

import (
	"context"
	"net/http"

	"modelgate/internal/catalog"
	"modelgate/internal/provider"
	"modelgate/internal/secret"
)

// DryRun is a dry run: what an exchange would send, gathered instead of sent.
type DryRun struct {
	Attempts []DryRunRequest
}

// DryRunRequest is one request that would go out. It holds no credential.
type DryRunRequest struct {
	Path     string // JSON path of the leaf
	Provider string
	Slug     string
	Model    string
	Price    *catalog.Price // nil where none is known
	Method   string
	URL      string // of a managed provider: its path alone, the address is not the caller's business
	Header   http.Header
	Body     []byte
	Params   []string // what happens to parameters, as x-gateway-params says it
	Timeout  int64    // milliseconds; zero means the engine's limits alone
}

// dryRun builds the attempt's requests without a credential and keeps them. The
// answer is an empty success, so that strategies go the way of the good case.
func (l *TargetHandler) dryRun(ctx context.Context, x *Exchange) (*Response, error) {
	spoken, err := l.planWire(x)
	if err != nil {
		return nil, err
	}
	counted, err := l.reserveTranslation(x, &spoken)
	if err != nil {
		return nil, err
	}
	if counted != nil {
		defer counted.Release()
	}
	pieces, err := l.splitRequest(x, &spoken)
	if err == nil && pieces == nil {
		err = l.dryRunRequest(ctx, x, &spoken)
	}
	for _, piece := range pieces {
		if err == nil {
			leaf, spoken := l.forSplit(&spoken)
			err = leaf.dryRunRequest(ctx, piece, &spoken)
		}
		x.Params = piece.Params
	}
	if err != nil {
		return nil, err
	}
	return &Response{Status: http.StatusOK, Header: http.Header{}, Target: l.Target, Tap: x.Client.NewTap(x.Operation), Bytes: []byte("{}")}, nil
}

// dryRunRequest builds one request and keeps it.
func (l *TargetHandler) dryRunRequest(ctx context.Context, x *Exchange, spoken *wirePlan) error {
	bare := *l.Target
	spec := *l.Target.Spec
	spec.Auth = provider.Auth{}
	bare.Spec, bare.Key, bare.Headers = &spec, secret.String{}, nil
	call, err := l.call(x, spoken)
	if err != nil {
		return err
	}
	var body []byte
	if x.Body != nil {
		buf, err := l.prepareBody(x, spoken, call.Header)
		if err != nil {
			return err
		}
		body = append(body, buf.Bytes()...)
		buf.Release()
	}
	req, err := provider.NewRequest(ctx, &bare, &call)
	if err != nil {
		return err
	}
	address := req.URL.RequestURI()
	if l.Target.Slug == "" {
		address = req.URL.Scheme + "://" + req.URL.Host + address
	}
	price, _ := l.Target.Price(x.Prices, x.UpstreamModel, "", x.Entry.Time)
	x.DryRun.Attempts = append(x.DryRun.Attempts, DryRunRequest{
		Path:     l.Path,
		Provider: l.Target.ID,
		Slug:     l.Target.Slug,
		Model:    x.UpstreamModel,
		Price:    price,
		Method:   req.Method,
		URL:      address,
		Header:   req.Header,
		Body:     body,
		Params:   append([]string{}, x.Params...),
		Timeout:  l.Timeout.Milliseconds(),
	})
	return nil
}
