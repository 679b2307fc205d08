package guarding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/records/reqlog"
)

// openCheck returns the request of a call with this body, which the caller must release.
func openCheck(c *exchange.CheckCall, body []byte) (*exchange.Request, error) {
	if c.Err != nil {
		return nil, c.Err
	}
	buf, err := c.Pool.GetShare(len(body), c.Request.Memory)
	if err != nil {
		return nil, apierr.BodyMemoryFull(err)
	}
	buf.Fill(func(dst []byte) []byte { return append(dst, body...) })
	own := c.Request
	if c.Timeout > 0 {
		own.AttemptDeadline = time.Now().Add(c.Timeout)
	}
	if err := own.Received.SetBody(buf, new(jsonedit.Doc)); err != nil {
		buf.Release()
		return nil, err
	}
	return &own, nil
}

// ask sends the request of a check of r. Its attempts are part of r: they are
// recorded in its log entry, paid and limited like its own, and those of a check
// of its config count for its limit of attempts.
func (l *CheckLog) ask(ctx context.Context, r *exchange.Request, m *guardrail.Model,
	call guardrail.ModelCall) (guardrail.ModelResponse, error) {
	admitted := r.Checking.CheckCalls[m]
	if admitted == nil {
		return guardrail.ModelResponse{}, errors.New("no model can be asked for this request")
	}
	own, err := openCheck(admitted, m.Body(call))
	if err != nil {
		return guardrail.ModelResponse{}, errors.New(apierr.From(err).Message)
	}
	defer own.Received.Body.Release()
	defer l.forget(own)
	if call.Rank > guardrail.RankConfig {
		own.Attempts = new(atomic.Uint32)
	}
	t := &exchange.Trail{Shared: l.bill}
	defer l.addAttempts(m.Check, t)
	res, err := own.Routing.Handle(ctx, own, t)
	if err != nil {
		return guardrail.ModelResponse{}, errors.New(apierr.From(err).Message)
	}
	defer res.Close()
	if res.Status != http.StatusOK || res.Bytes == nil {
		if guardrail.RefusesText(res.Status) {
			return guardrail.ModelResponse{}, guardrail.NewIncomplete("it responded with status %d, so it has not read the text", res.Status)
		}
		return guardrail.ModelResponse{}, fmt.Errorf("it responded with status %d", res.Status)
	}
	if m.Moderation {
		return readModeration(res.Bytes, len(call.Texts))
	}
	return readModelResponse(res.Bytes)
}

// forget removes the runs of hooks on a request whose body is released: another
// request may get the same buffer.
func (l *CheckLog) forget(r *exchange.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.runs, func(k requestRunKey, _ *requestRun) bool { return k.body == r.Received.Body })
}

// addAttempts records the attempts that a check made.
func (l *CheckLog) addAttempts(check string, t *exchange.Trail) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range t.Attempts {
		record := a.Record
		record.Target = "check " + check + ": " + record.Target
		l.attempts = append(l.attempts, record)
	}
}

// HasCalls reports whether a check has sent a request to a model.
func (l *CheckLog) HasCalls() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.attempts) > 0
}

// readModelResponse returns the text of a response in the chat dialect.
func readModelResponse(body []byte) (guardrail.ModelResponse, error) {
	var out struct {
		Choices []struct {
			Message struct {
				Content *string `json:"content"`
			} `json:"message"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
	}
	switch err := json.Unmarshal(body, &out); {
	case err != nil || len(out.Choices) == 0 || out.Choices[0].Message.Content == nil && out.Choices[0].Finish != "length":
		return guardrail.ModelResponse{}, guardrail.NewIncomplete("its response has no text")
	case out.Choices[0].Finish == "length":
		return guardrail.ModelResponse{}, guardrail.NewIncomplete("its reply is longer than max_tokens; raise it")
	}
	return guardrail.ModelResponse{Text: *out.Choices[0].Message.Content}, nil
}

// readModeration returns the categories of a moderation of n texts. A text that is
// flagged without a category has the category flagged.
func readModeration(body []byte, n int) (guardrail.ModelResponse, error) {
	var out struct {
		Results []struct {
			Flagged    *bool           `json:"flagged"`
			Categories map[string]bool `json:"categories"`
		} `json:"results"`
	}
	if json.Unmarshal(body, &out) != nil || len(out.Results) != n {
		return guardrail.ModelResponse{}, errors.New("its response is not a moderation of all texts")
	}
	found := map[string]bool{}
	for _, r := range out.Results {
		some := false
		for name, yes := range r.Categories {
			if yes {
				found[name], some = true, true
			}
		}
		switch {
		case r.Flagged == nil && r.Categories == nil:
			return guardrail.ModelResponse{}, errors.New("its response is not a moderation of all texts")
		case r.Flagged != nil && *r.Flagged && !some:
			found["flagged"] = true
		}
	}
	return guardrail.ModelResponse{Flagged: slices.Sorted(maps.Keys(found))}, nil
}

// facts returns what checks may know about the request, and asks models for them.
func (l *CheckLog) facts(r *exchange.Request, body guardrail.Document) *guardrail.Request {
	f := facts(r, body)
	f.CountRequest = func() error { return exchange.CountAttempt(&l.bill.Used, l.limit) }
	if r.Memory != nil {
		f.Hold = func(n int) (func(), error) {
			release, err := r.Memory.Hold(n)
			if err != nil {
				return nil, apierr.BodyMemoryFull(err)
			}
			return release, nil
		}
	}
	if len(r.Checking.CheckCalls) > 0 {
		f.Ask = func(ctx context.Context, m *guardrail.Model, call guardrail.ModelCall) (guardrail.ModelResponse, error) {
			return l.ask(ctx, r, m, call)
		}
	}
	return f
}

// RecordChecks adds to e, which [exchange.Trail.Record] has filled, what the checks of the
// request did: all of them have ended.
func RecordChecks(t *exchange.Trail, e *reqlog.Entry) {
	l := ChecksOf(t)
	l.mu.Lock()
	e.Checks, e.Unchecked = l.checks, l.uncovered
	asked := l.attempts
	l.mu.Unlock()
	t.RecordLimits(e)
	if len(asked) > 0 { // their cost may have come after the response
		e.Attempts = append(e.Attempts, asked...)
		t.RecordCost(e)
	}
}
