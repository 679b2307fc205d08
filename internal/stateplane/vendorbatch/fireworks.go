package vendorbatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorcall"
)

// fireworks is the batch API of Fireworks: jobs that read a dataset and write one. The
// paths name the account. Its jobs cannot be cancelled.
// https://docs.fireworks.ai/api-reference/create-batch-inference-job
type fireworks struct{}

type fireworksJob struct {
	Name       string   `json:"name"`
	CreateTime unixTime `json:"createTime"`
	UpdateTime unixTime `json:"updateTime"`
	State      string   `json:"state"`
	Status     struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
	Model           string `json:"model"`
	InputDatasetID  string `json:"inputDatasetId"`
	OutputDatasetID string `json:"outputDatasetId"`
	DisplayName     string `json:"displayName"`
	Progress        struct {
		Total     count `json:"totalInputRequests"`
		Succeeded count `json:"successfullyProcessedRequests"`
		Failed    count `json:"failedRequests"`
		Input     count `json:"inputTokens"`
		Output    count `json:"outputTokens"`
		Cached    count `json:"cachedInputTokenCount"`
	} `json:"jobProgress"`
}

// unified returns the batch as clients see it.
func (f *fireworksJob) unified(v *view) (*Batch, error) {
	if !strings.Contains(f.Name, "/batchInferenceJobs/") || !isID(f.Name) {
		return nil, v.unreadable(errNoID)
	}
	p := &f.Progress
	b := &Batch{
		ID: f.Name, Object: "batch", Model: f.Model, CreatedAt: int64(f.CreateTime), InputFileID: f.InputDatasetID, Output: f.OutputDatasetID,
		RequestCounts: Counts{int64(p.Total), int64(p.Succeeded), int64(p.Failed)}, OwnID: ownIDIn(f.DisplayName),
	}
	if p.Input+p.Output > 0 {
		b.Usage = &Usage{
			InputTokens: int64(p.Input), InputTokensDetails: InputDetails{int64(p.Cached)}, OutputTokens: int64(p.Output),
			TotalTokens: int64(p.Input + p.Output),
		}
	}
	v.states.set(b, strings.TrimPrefix(f.State, "JOB_STATE_"))
	b.VendorStatus = f.State
	b.setEnd(f.UpdateTime)
	if b.Status == Failed && f.Status.Message != "" {
		b.Errors = &Errors{}
		b.Errors.add(0, first(f.Status.Code, "provider_error"), "", messageOf(nil, f.Status.Message))
	}
	return b, nil
}

// account returns the path of the account.
func (fireworks) account(v *view, in *Input) (string, error) {
	id := in.option("account_id")
	if id == "" {
		return "", v.errOption("account_id", "account_id", "the id of the account")
	}
	return "accounts/" + url.PathEscape(id), nil
}

// resourceID returns the id of a dataset or a job of a record: lower-case letters,
// digits and hyphens.
func resourceID(in *Input, suffix string) string {
	return "modelgate-" + strings.ReplaceAll(strings.ToLower(safeName(first(in.OwnID, "batch"))), "_", "-") + suffix
}

func (d fireworks) create(ctx context.Context, j *job) (*Batch, error) {
	account, err := d.account(&j.view, j.in)
	if err != nil {
		return nil, err
	}
	input := j.in.FileID
	if input == "" {
		input = account + "/datasets/" + resourceID(j.in, "-in")
		if err := d.upload(ctx, j, account, resourceID(j.in, "-in")); err != nil {
			return nil, wrap(err, "uploading the input of a batch")
		}
		j.uploaded = input
	}
	body := map[string]any{
		"displayName": j.displayName(), "model": j.codec.model, "inputDatasetId": input,
		"outputDatasetId": account + "/datasets/" + resourceID(j.in, "-out"),
	}
	var reply fireworksJob
	r := &vendorcall.Request{
		Service: vendorcall.ServiceHost, Method: http.MethodPost, Path: "/v1/" + account + "/batchInferenceJobs",
		Query: url.Values{"batchInferenceJobId": {resourceID(j.in, "")}}.Encode(),
	}
	if err := j.send(ctx, r, body, &reply); err != nil {
		return nil, markUnanswered(err)
	}
	b, err := reply.unified(&j.view)
	return b, markUnanswered(err)
}

// upload creates a dataset, sends its file to the address that the vendor signs, and has
// it validated.
func (fireworks) upload(ctx context.Context, j *job, account, id string) error {
	at := "/v1/" + account + "/datasets"
	post := func(path string, body, out any) error {
		return j.send(ctx, &vendorcall.Request{Service: vendorcall.ServiceHost, Method: http.MethodPost, Path: path}, body, out)
	}
	err := post(at, map[string]any{
		"datasetId": id, "dataset": map[string]any{"userUploaded": map[string]any{}, "exampleCount": strconv.Itoa(j.summary.records)},
	}, nil)
	if err != nil {
		return err
	}
	body, length := j.content("", "\n", "\n")
	defer body.Close()
	var signed fireworksLinks
	if err := post(at+"/"+id+":getUploadEndpoint", map[string]any{
		"filenameToSize": map[string]string{j.fileName(): strconv.FormatInt(length, 10)},
	}, &signed); err != nil {
		return err
	}
	link := signed.Links[j.fileName()]
	if link == "" {
		return j.unreadable(errors.New("the response has no address to upload to"))
	}
	size := strconv.FormatInt(length, 10)
	res, err := j.open(ctx, &vendorcall.Request{
		Method: http.MethodPut, Link: link, Body: body, Length: length,
		Header: http.Header{"Content-Type": {"application/octet-stream"}, "X-Goog-Content-Length-Range": {size + "," + size}},
	})
	if err != nil {
		return err
	}
	res.Body.Close()
	return post(at+"/"+id+":validateUpload", nil, nil)
}

func (fireworks) removal(id string) *vendorcall.Request {
	return &vendorcall.Request{Service: vendorcall.ServiceHost, Method: http.MethodDelete, Path: "/v1/" + resourcePath(id)}
}

// fireworksLinks are signed addresses of the files of a dataset.
type fireworksLinks struct {
	Links map[string]string `json:"filenameToSignedUrls"`
}

func (fireworks) record(dst []byte, _ *Line, key string, body []byte) []byte {
	return appendShortLine(dst, "custom_id", key, "body", body)
}

func (fireworks) get(ctx context.Context, v *view, id string) (*Batch, error) {
	var reply fireworksJob
	err := v.do(ctx, &vendorcall.Request{Service: vendorcall.ServiceHost, Method: http.MethodGet, Path: "/v1/" + resourcePath(id)}, &reply)
	if err != nil {
		return nil, err
	}
	return reply.unified(v)
}

func (fireworks) cancel(context.Context, *view, string) error { return ErrUnsupported }

func (d fireworks) find(ctx context.Context, v *view, in *Input) (*Batch, error) {
	account, err := d.account(v, in)
	if err != nil {
		return nil, err
	}
	b, err := d.get(ctx, v, account+"/batchInferenceJobs/"+resourceID(in, ""))
	if apierr.IsNotFound(err) {
		return nil, nil
	}
	return b, err
}

func (fireworks) rows(ctx context.Context, v *view, b *Batch, _ *Input) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		if b.Output == "" {
			return
		}
		var signed fireworksLinks
		err := v.do(ctx, &vendorcall.Request{
			Service: vendorcall.ServiceHost, Method: http.MethodGet, Path: "/v1/" + resourcePath(b.Output) + ":getDownloadEndpoint",
		}, &signed)
		if apierr.IsNotFound(err) && b.Status != Completed { // it ended before anything was written
			return
		}
		if err != nil {
			yield(row{}, fmt.Errorf("finding the results: %w", err))
			return
		}
		for _, name := range slices.Sorted(maps.Keys(signed.Links)) {
			if !v.readRows(ctx, &vendorcall.Request{Method: http.MethodGet, Link: signed.Links[name]}, parseRow, yield) {
				return
			}
		}
	}
}
