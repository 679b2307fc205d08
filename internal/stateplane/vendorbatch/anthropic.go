package vendorbatch

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/vendorcall"
)

// anthropic is the Message Batches API. Its batches have neither a name nor metadata,
// so they cannot be found again.
// https://docs.claude.com/en/api/creating-message-batches
type anthropic struct{}

type anthropicBatch struct {
	ID                string   `json:"id"`
	ProcessingStatus  string   `json:"processing_status"`
	CreatedAt         unixTime `json:"created_at"`
	EndedAt           unixTime `json:"ended_at"`
	ExpiresAt         unixTime `json:"expires_at"`
	CancelInitiatedAt unixTime `json:"cancel_initiated_at"`
	RequestCounts     struct {
		Processing count `json:"processing"`
		Succeeded  count `json:"succeeded"`
		Errored    count `json:"errored"`
		Canceled   count `json:"canceled"`
		Expired    count `json:"expired"`
	} `json:"request_counts"`
}

// unified returns the batch as clients see it. A batch that ended is cancelled or
// expired if requests were cancelled or nothing else than expired.
func (a *anthropicBatch) unified(v *view) (*Batch, error) {
	if !isID(a.ID) {
		return nil, v.unreadable(errNoID)
	}
	n := &a.RequestCounts
	b := &Batch{
		ID: a.ID, Object: "batch", CreatedAt: int64(a.CreatedAt), InProgressAt: int64(a.CreatedAt), ExpiresAt: int64(a.ExpiresAt),
		CancellingAt: int64(a.CancelInitiatedAt),
		RequestCounts: Counts{
			Total:     int64(n.Processing + n.Succeeded + n.Errored + n.Canceled + n.Expired),
			Completed: int64(n.Succeeded), Failed: int64(n.Errored),
		},
	}
	v.states.set(b, a.ProcessingStatus)
	if b.Status == Completed {
		switch {
		case n.Canceled > 0 && a.CancelInitiatedAt > 0:
			b.Status = Cancelled
		case n.Expired > 0 && n.Succeeded+n.Errored == 0:
			b.Status = Expired
		}
		b.Output = a.ID
	}
	b.setEnd(a.EndedAt)
	return b, nil
}

func (anthropic) create(ctx context.Context, j *job) (*Batch, error) {
	if j.in.FileID != "" {
		return nil, apierr.New(apierr.Invalid, "batches of %s cannot read a file of the provider; upload it to the gateway and send its id",
			j.spec.Name).WithParam("input_file_id")
	}
	body, length := j.content(`{"requests":[`, ",", "]}")
	r := &vendorcall.Request{
		Method: http.MethodPost, Path: "/messages/batches", Header: http.Header{"Content-Type": {"application/json"}},
		Body: body, Length: length,
	}
	if len(j.summary.betas) > 0 {
		r.Header["Anthropic-Beta"] = []string{strings.Join(j.summary.betas, ",")}
	}
	var reply anthropicBatch
	if err := j.do(ctx, r, &reply); err != nil {
		return nil, markUnanswered(err)
	}
	b, err := reply.unified(&j.view)
	return b, markUnanswered(err)
}

// trim moves the beta features of a body to the header of the batch: there they are for
// all lines.
func (anthropic) trim(j *job, body []byte) ([]byte, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return nil, err
	}
	v, ok := doc.Find("anthropic_beta")
	if !ok {
		return body, nil
	}
	for e := range v.Elements() {
		if beta, ok := e.Text(); ok && !slices.Contains(j.summary.betas, beta) {
			j.summary.betas = append(j.summary.betas, beta)
		}
	}
	return doc.Apply(nil, jsonedit.Edit{Name: "anthropic_beta"}), nil
}

func (anthropic) record(dst []byte, _ *Line, key string, body []byte) []byte {
	return appendShortLine(dst, "custom_id", key, "params", body)
}

func (anthropic) get(ctx context.Context, v *view, id string) (*Batch, error) {
	var reply anthropicBatch
	if err := v.client.get(ctx, "/messages/batches/"+url.PathEscape(id), "", &reply); err != nil {
		return nil, err
	}
	return reply.unified(v)
}

func (anthropic) cancel(ctx context.Context, v *view, id string) error {
	return v.post(ctx, "/messages/batches/"+url.PathEscape(id)+"/cancel", nil, nil)
}

func (anthropic) find(context.Context, *view, *Input) (*Batch, error) { return nil, ErrUnsupported }

func (anthropic) rows(ctx context.Context, v *view, b *Batch, in *Input) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		if b.Output != "" {
			path := "/messages/batches/" + url.PathEscape(b.ID) + "/results"
			parse := parseAnthropicRow
			if in.Keyless {
				parse = numbered(parse)
			}
			v.readRows(ctx, &vendorcall.Request{Method: http.MethodGet, Path: path}, parse, yield)
		}
	}
}

func parseAnthropicRow(line []byte) row {
	r, v, ok := newRow(line)
	if !ok {
		return r
	}
	r.setKey(v.TextOf("custom_id"))
	result, _ := v.Get("result")
	switch kind := result.TextOf("type"); kind {
	case "succeeded":
		if message, ok := result.Get("message"); ok && message.Kind() == jsonedit.Object {
			r.status, r.body, r.requestID = http.StatusOK, message.Raw(), message.TextOf("id")
		}
	case "errored":
		fault, _ := result.Get("error")
		r.fault, r.requestID = faultOf(fault), fault.TextOf("request_id")
	case "canceled":
		reason := unfinished[Cancelled]
		r.fault = &reason
	case "expired":
		reason := unfinished[Expired]
		r.fault = &reason
	}
	r.needResponse()
	return r
}
