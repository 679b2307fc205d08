package vendorbatch

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/vendorcall"
)

// xai is xAI's batch API: the input is a file, and results are read page by page. A
// batch has no state, only the numbers of its requests.
// https://docs.x.ai/docs/guides/batch-api
type xai struct{ openAI }

type xaiBatch struct {
	BatchID     string   `json:"batch_id"`
	Name        string   `json:"name"`
	CreateTime  unixTime `json:"create_time"`
	ExpireTime  unixTime `json:"expire_time"`
	CancelTime  unixTime `json:"cancel_time"`
	Reason      string   `json:"cancel_by_xai_message"`
	InputFileID string   `json:"input_file_id"`
	State       struct {
		Requests  count `json:"num_requests"`
		Pending   count `json:"num_pending"`
		Success   count `json:"num_success"`
		Error     count `json:"num_error"`
		Cancelled count `json:"num_cancelled"`
	} `json:"state"`
}

// unified returns the batch as clients see it. date is the Date of the response: after
// the time at which it expires, a batch with pending requests has expired.
func (x *xaiBatch) unified(v *view, date string) (*Batch, error) {
	if !isID(x.BatchID) {
		return nil, v.unreadable(errNoID)
	}
	n := &x.State
	b := &Batch{
		ID: x.BatchID, Object: "batch", InputFileID: x.InputFileID, CreatedAt: int64(x.CreateTime), ExpiresAt: int64(x.ExpireTime),
		CancellingAt: int64(x.CancelTime), RequestCounts: Counts{int64(n.Requests), int64(n.Success), int64(n.Error)}, OwnID: ownIDIn(x.Name),
	}
	now, _ := http.ParseTime(date)
	switch {
	case x.CancelTime > 0 && n.Pending > 0:
		b.Status = Cancelling
	case x.CancelTime > 0:
		b.Status, b.CancelledAt = Cancelled, int64(x.CancelTime)
	case n.Requests == 0:
		b.Status = Validating
	case n.Pending == 0:
		b.Status = Completed
	case x.ExpireTime > 0 && now.After(time.Unix(int64(x.ExpireTime), 0)):
		b.Status, b.ExpiredAt = Expired, int64(x.ExpireTime)
	default:
		b.Status = InProgress
	}
	b.VendorStatus = string(b.Status)
	if x.Reason != "" {
		b.Errors = &Errors{}
		b.Errors.add(0, "cancelled_by_provider", "", messageOf(nil, x.Reason))
	}
	return b, nil
}

func (d *xai) create(ctx context.Context, j *job) (*Batch, error) {
	fileID, err := d.uploadInput(ctx, j)
	if err != nil {
		return nil, err
	}
	var reply xaiBatch
	if err := j.post(ctx, "/batches", map[string]any{"name": j.displayName(), "input_file_id": fileID}, &reply); err != nil {
		return nil, markUnanswered(err)
	}
	b, err := reply.unified(&j.view, "")
	if err != nil {
		return nil, markUnanswered(err)
	}
	b.InputFileID = fileID
	return b, nil
}

func (*xai) get(ctx context.Context, v *view, id string) (*Batch, error) {
	var reply xaiBatch
	date, err := v.doDated(ctx, &vendorcall.Request{Method: http.MethodGet, Path: "/batches/" + url.PathEscape(id)}, &reply)
	if err != nil {
		return nil, err
	}
	return reply.unified(v, date)
}

func (*xai) cancel(ctx context.Context, v *view, id string) error {
	return v.post(ctx, "/batches/"+url.PathEscape(id)+":cancel", nil, nil)
}

func (*xai) find(ctx context.Context, v *view, in *Input) (*Batch, error) {
	token := ""
	for range maxPages {
		var page struct {
			Batches []xaiBatch `json:"batches"`
			Token   string     `json:"pagination_token"`
		}
		if err := v.client.get(ctx, "/batches", xaiPage(token), &page); err != nil {
			return nil, err
		}
		for i := range page.Batches {
			if ownIDIn(page.Batches[i].Name) == safeName(in.OwnID) {
				return page.Batches[i].unified(v, "")
			}
		}
		if token = page.Token; token == "" || len(page.Batches) == 0 {
			break
		}
	}
	return nil, nil
}

// xaiPage returns the query of a page.
func xaiPage(token string) string {
	query := url.Values{"limit": {"100"}}
	if token != "" {
		query.Set("pagination_token", token)
	}
	return query.Encode()
}

func (*xai) rows(ctx context.Context, v *view, b *Batch, _ *Input) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		token := ""
		for {
			var page struct {
				Results []json.RawMessage `json:"results"`
				Token   string            `json:"pagination_token"`
			}
			if err := v.client.get(ctx, "/batches/"+url.PathEscape(b.ID)+"/results", xaiPage(token), &page); err != nil {
				yield(row{}, err)
				return
			}
			for _, result := range page.Results {
				if !yield(parseXAIRow(result), nil) {
					return
				}
			}
			if page.Token == "" || page.Token == token || len(page.Results) == 0 {
				return
			}
			token = page.Token
		}
	}
}

// parseXAIRow reads a result: the response is in a member with the name of its kind.
func parseXAIRow(data []byte) row {
	r, v, ok := newRow(data)
	if !ok {
		return r
	}
	r.setKey(v.TextOf("batch_request_id"))
	result, ok := v.Get("batch_result")
	if !ok {
		result = v
	}
	response, _ := result.Get("response")
	for _, body := range response.Fields() {
		if body.Kind() == jsonedit.Object {
			r.status, r.body, r.requestID = http.StatusOK, body.Raw(), body.TextOf("id")
			break
		}
	}
	for _, at := range []jsonedit.Value{result, v} {
		for _, name := range []string{"error", "error_message"} {
			if fault, ok := at.Get(name); ok && !fault.IsNull() && string(fault.Raw()) != `""` && r.body == nil {
				r.fault = faultOf(fault)
			}
		}
	}
	r.needResponse()
	return r
}
