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
	acc := &attemptAccount{attempt: a, sent: sentBy(a.plan.request)}
	defer acc.sent.release()
	acc.limits = metering.Reservation{Store: a.plan.handler.Engine.Quota, Request: a.plan.request,
		Record: &a.plan.record, Also: a.plan.also, By: acc}
	return acc.limits.Preview(ctx)
}

// dryRun builds the attempt's requests without a credential and adds them to
// the trail. The response is an empty success, so that strategies behave as
// after a success.
func (a *attempt) dryRun(ctx context.Context) (*exchange.Response, error) {
	if err := a.plan.planWire(); err != nil {
		return nil, err
	}
	if a.plan.wire.estimates != nil {
		return estimateCount(a)
	}
	counted, err := a.plan.reserveTranslation()
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
		a.plan.trail.Planned = append(a.plan.trail.Planned, planned)
	}
	return &exchange.Response{Status: http.StatusOK, Header: http.Header{}, Attempt: &a.plan.record,
		Tap: a.plan.request.Client.NewTap(a.plan.request.Operation), Bytes: []byte("{}")}, nil
}

// planned builds one request.
func (a *attempt) planned(ctx context.Context) (out exchange.DryRunRequest, err error) {
	bare := *a.plan.record.Target
	spec := *a.plan.record.Target.Spec
	spec.Auth = provider.Auth{}
	bare.Spec, bare.Key, bare.Headers = &spec, secret.String{}, nil
	if err := a.plan.prepareCall(); err != nil {
		return out, err
	}
	var body []byte
	var sent *bytepool.Buffer
	if a.plan.request.Received.Body != nil {
		buf, err := a.plan.prepareBody(a.plan.call.Header)
		if err != nil {
			return out, err
		}
		defer buf.Release()
		body, sent = append(body, buf.Bytes()...), buf
	}
	req, err := provider.NewRequest(ctx, &bare, &a.plan.call)
	if err != nil {
		return out, err
	}
	address := req.URL.RequestURI()
	if a.plan.record.Target.Slug == "" {
		address = req.URL.Scheme + "://" + req.URL.Host + address
	}
	if sent != nil {
		a.plan.call.Body.Source = sent // whose limit of output counts
	}
	limits, err := a.limitStates(ctx)
	if err != nil {
		return out, err
	}
	price, _ := a.plan.record.Target.Price(a.plan.request.Limiting.Prices, a.plan.record.Model, "", a.plan.request.Time)
	return exchange.DryRunRequest{
		Path:     a.plan.handler.Path,
		Provider: a.plan.record.Target.ID,
		Slug:     a.plan.record.Target.Slug,
		Model:    a.plan.record.Model,
		Price:    price,
		Method:   req.Method,
		URL:      address,
		Header:   req.Header,
		Body:     body,
		Params:   exchange.ParamItems(a.plan.record.Params),
		Timeout:  a.plan.handler.Timeout.Milliseconds(),
		Limits:   limits,

		PromptCache: a.plan.trail.Bill().PromptCache.Plan(price, EstimateTokens(a.plan.request).Input),
	}, nil
}
