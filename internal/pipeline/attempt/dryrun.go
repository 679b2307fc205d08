package attempt

import (
	"context"
	"net/http"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/provider"
)

// limitStates returns the limits of the attempt as they are now.
func (a *attempt) limitStates(ctx context.Context) ([]exchange.LimitState, error) {
	acc := &attemptAccount{attempt: a, sent: sentBy(a.request)}
	defer acc.sent.release()
	acc.limits = metering.Reservation{Store: a.handler.Engine.Quota, Request: a.request, Record: &a.record, Also: a.also, By: acc}
	return acc.limits.Preview(ctx)
}

// dryRun builds the attempt's requests without a credential and adds them to
// the trail. The response is an empty success, so that strategies behave as
// after a success.
func (a *attempt) dryRun(ctx context.Context) (*exchange.Response, error) {
	if err := a.planWire(); err != nil {
		return nil, err
	}
	if a.wire.estimates != nil {
		return a.estimateCount()
	}
	counted, err := a.reserveTranslation()
	if err != nil {
		return nil, err
	}
	if counted != nil {
		defer counted.Release()
	}
	pieces, err := a.split()
	if err != nil {
		return nil, err
	}
	if pieces == nil {
		pieces = []*attempt{a}
	}
	for _, piece := range pieces {
		planned, err := piece.planned(ctx)
		if err != nil {
			return nil, err
		}
		a.trail.Planned = append(a.trail.Planned, planned)
	}
	return &exchange.Response{Status: http.StatusOK, Header: http.Header{}, Attempt: &a.record,
		Tap: a.request.Client.NewTap(a.request.Operation), Bytes: []byte("{}")}, nil
}

// planned builds one request.
func (a *attempt) planned(ctx context.Context) (out exchange.DryRunRequest, err error) {
	bare := *a.record.Target
	spec := *a.record.Target.Spec
	spec.Auth = provider.Auth{}
	bare.Spec, bare.Key, bare.Headers = &spec, secret.String{}, nil
	if err := a.prepareCall(); err != nil {
		return out, err
	}
	var body []byte
	var sent *bytepool.Buffer
	if a.request.Received.Body != nil {
		buf, err := a.prepareBody(a.call.Header)
		if err != nil {
			return out, err
		}
		defer buf.Release()
		body, sent = append(body, buf.Bytes()...), buf
	}
	req, err := provider.NewRequest(ctx, &bare, &a.call)
	if err != nil {
		return out, err
	}
	address := req.URL.RequestURI()
	if a.record.Target.Slug == "" {
		address = req.URL.Scheme + "://" + req.URL.Host + address
	}
	if sent != nil {
		a.call.Body.Source = sent // whose limit of output counts
	}
	limits, err := a.limitStates(ctx)
	if err != nil {
		return out, err
	}
	price, _ := a.record.Target.Price(a.request.Limiting.Prices, a.record.Model, "", a.request.Time)
	return exchange.DryRunRequest{
		Path:     a.handler.Path,
		Provider: a.record.Target.ID,
		Slug:     a.record.Target.Slug,
		Model:    a.record.Model,
		Price:    price,
		Method:   req.Method,
		URL:      address,
		Header:   req.Header,
		Body:     body,
		Params:   exchange.ParamItems(a.record.Params),
		Timeout:  a.handler.Timeout.Milliseconds(),
		Limits:   limits,

		PromptCache: a.trail.Bill().PromptCache.Plan(price, EstimateTokens(a.request).Input),
	}, nil
}
