package vendorbatch

import (
	"context"
	"encoding/hex"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/vendorcall"
)

// bedrock is batch inference of Amazon Bedrock: input and results are objects in S3. The
// options are s3_bucket, role_arn or batch_role_arn of the role that Bedrock reads and writes
// them with, output_data_config with the folder of the results, and kms_key_id.
// https://docs.aws.amazon.com/bedrock/latest/userguide/batch-inference.html
type bedrock struct{}

type bedrockJob struct {
	JobARN      string   `json:"jobArn"`
	JobName     string   `json:"jobName"`
	ModelID     string   `json:"modelId"`
	Status      string   `json:"status"`
	Message     string   `json:"message"`
	SubmitTime  unixTime `json:"submitTime"`
	LastChanged unixTime `json:"lastModifiedTime"`
	EndTime     unixTime `json:"endTime"`
	ExpiryTime  unixTime `json:"jobExpirationTime"`
	Input       struct {
		S3 struct {
			URI string `json:"s3Uri"`
		} `json:"s3InputDataConfig"`
	} `json:"inputDataConfig"`
	Output struct {
		S3 struct {
			URI string `json:"s3Uri"`
		} `json:"s3OutputDataConfig"`
	} `json:"outputDataConfig"`
	bedrockCounts
}

type bedrockCounts struct {
	Total   count `json:"totalRecordCount"`
	Success count `json:"successRecordCount"`
	Error   count `json:"errorRecordCount"`
}

// unified returns the batch as clients see it.
func (k *bedrockJob) unified(v *view) (*Batch, error) {
	if !isID(k.JobARN) {
		return nil, v.unreadable(errNoID)
	}
	b := &Batch{
		ID: k.JobARN, Object: "batch", Model: k.ModelID, CreatedAt: int64(k.SubmitTime), ExpiresAt: int64(k.ExpiryTime),
		InputFileID: k.Input.S3.URI, RequestCounts: Counts{int64(k.Total), int64(k.Success), int64(k.Error)},
	}
	if k.Output.S3.URI != "" {
		id := k.JobARN[strings.LastIndexByte(k.JobARN, '/')+1:]
		b.Output = strings.TrimSuffix(k.Output.S3.URI, "/") + "/" + id + "/"
	}
	v.states.set(b, k.Status)
	b.setEnd(first(k.EndTime, k.LastChanged))
	if b.Status == Failed && k.Message != "" {
		b.Errors = &Errors{}
		b.Errors.add(0, "provider_error", "", messageOf(nil, k.Message))
	}
	return b, nil
}

func (d bedrock) create(ctx context.Context, j *job) (*Batch, error) {
	bucket, role := j.in.option("s3_bucket"), first(j.in.option("role_arn"), j.in.option("batch_role_arn"))
	if bucket == "" {
		return nil, j.errOption("s3_bucket", "s3_bucket", "a bucket of Amazon S3")
	}
	if role == "" {
		return nil, j.errOption("role_arn", "batch_role_arn", "a role with which Bedrock reads and writes the bucket")
	}
	folderOfResults, err := j.outputFolder("s3://", bucket)
	if err != nil {
		return nil, err
	}
	folder := j.folder()
	source := j.in.FileID
	if source == "" {
		source = "s3://" + bucket + "/" + folder + "/input.jsonl"
		if err := d.upload(ctx, j, bucket, folder+"/input.jsonl"); err != nil {
			return nil, wrap(err, "uploading the input of a batch")
		}
		j.uploaded = source
	}
	output := map[string]any{"s3Uri": folderOfResults + "/"}
	if key := j.in.option("kms_key_id"); key != "" {
		output["s3EncryptionKeyId"] = key
	}
	kind := "Converse"
	if j.codec.op == api.Embeddings {
		kind = "InvokeModel"
	}
	name := resourceID(j.in, "")
	body := map[string]any{
		"jobName": name, "clientRequestToken": name,
		"modelId": j.spec.UpstreamModelName(j.codec.model), "roleArn": role, "modelInvocationType": kind,
		"inputDataConfig":  map[string]any{"s3InputDataConfig": map[string]any{"s3InputFormat": "JSONL", "s3Uri": source}},
		"outputDataConfig": map[string]any{"s3OutputDataConfig": output},
	}
	var reply bedrockJob
	r := &vendorcall.Request{Service: vendorcall.ServiceBedrock, Method: http.MethodPost, Path: "/model-invocation-job"}
	if err := j.send(ctx, r, body, &reply); err != nil {
		return nil, markUnanswered(err)
	}
	reply.Status, reply.ModelID, reply.Input.S3.URI = first(reply.Status, "Submitted"), j.codec.model, source
	b, err := reply.unified(&j.view)
	return b, markUnanswered(err)
}

// upload uploads the input, encrypted with the key of the options.
func (bedrock) upload(ctx context.Context, j *job, bucket, key string) error {
	header := http.Header{"X-Amz-Content-Sha256": {hex.EncodeToString(j.summary.hash.Sum(nil))}}
	if id := j.in.option("kms_key_id"); id != "" {
		header.Set("X-Amz-Server-Side-Encryption", "aws:kms")
		header.Set("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", id)
	}
	return j.putObject(ctx, &vendorcall.Request{
		Service: vendorcall.ServiceS3, Method: http.MethodPut, Path: "/" + url.PathEscape(bucket) + "/" + resourcePath(key), Header: header,
	})
}

func (bedrock) removal(id string) *vendorcall.Request {
	bucket, key, _ := splitAddress(id, "s3://")
	return &vendorcall.Request{Service: vendorcall.ServiceS3, Method: http.MethodDelete,
		Path: "/" + url.PathEscape(bucket) + "/" + resourcePath(key)}
}

func (bedrock) record(dst []byte, _ *Line, key string, body []byte) []byte {
	return appendShortLine(dst, "recordId", key, "modelInput", body)
}

// get returns a batch. The counts and the usage of one that has ended are in a file next
// to its results.
func (bedrock) get(ctx context.Context, v *view, id string) (*Batch, error) {
	var reply bedrockJob
	r := &vendorcall.Request{Service: vendorcall.ServiceBedrock, Method: http.MethodGet,
		Path: "/model-invocation-job/" + url.PathEscape(id)}
	if err := v.do(ctx, r, &reply); err != nil {
		return nil, err
	}
	b, err := reply.unified(v)
	if err != nil || !b.Status.Ended() || b.Status == Failed {
		return b, err
	}
	var manifest struct {
		bedrockCounts
		Input  count `json:"inputTokenCount"`
		Output count `json:"outputTokenCount"`
	}
	r, ok := objectIn(b.Output, "manifest.json.out")
	if !ok {
		return b, nil
	}
	switch err := v.do(ctx, r, &manifest); {
	case apierr.IsNotFound(err):
		return b, nil
	case err != nil:
		return nil, err
	}
	if n := &manifest; n.Total > 0 {
		b.RequestCounts = Counts{int64(n.Total), int64(n.Success), int64(n.Error)}
		b.Usage = &Usage{InputTokens: int64(n.Input), OutputTokens: int64(n.Output), TotalTokens: int64(n.Input + n.Output)}
	}
	return b, nil
}

// objectIn returns the request for an object in a folder such as s3://bucket/folder/.
func objectIn(folder, name string) (*vendorcall.Request, bool) {
	bucket, key, ok := splitAddress(folder, "s3://")
	path := "/" + url.PathEscape(bucket) + "/" + resourcePath(strings.TrimPrefix(key+"/"+name, "/"))
	return &vendorcall.Request{Service: vendorcall.ServiceS3, Method: http.MethodGet, Path: path}, ok
}

func (bedrock) cancel(ctx context.Context, v *view, id string) error {
	r := &vendorcall.Request{Service: vendorcall.ServiceBedrock, Method: http.MethodPost,
		Path: "/model-invocation-job/" + url.PathEscape(id) + "/stop"}
	return v.send(ctx, r, nil, nil)
}

func (d bedrock) find(ctx context.Context, v *view, in *Input) (*Batch, error) {
	name := resourceID(in, "")
	var list struct {
		Jobs []bedrockJob `json:"invocationJobSummaries"`
	}
	r := &vendorcall.Request{
		Service: vendorcall.ServiceBedrock, Method: http.MethodGet,
		Path: "/model-invocation-jobs", Query: url.Values{"nameContains": {name}}.Encode(),
	}
	if err := v.do(ctx, r, &list); err != nil {
		return nil, err
	}
	for i := range list.Jobs {
		if list.Jobs[i].JobName == name {
			b, err := list.Jobs[i].unified(v)
			if err == nil {
				b.OwnID = in.OwnID
			}
			return b, err
		}
	}
	return nil, nil
}

func (bedrock) rows(ctx context.Context, v *view, b *Batch, _ *Input) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		name := b.InputFileID[strings.LastIndexByte(b.InputFileID, '/')+1:]
		r, ok := objectIn(b.Output, name+".out")
		if !ok || name == "" {
			return
		}
		v.readRows(ctx, r, parseBedrockRow, func(item row, err error) bool {
			if apierr.IsNotFound(err) && b.Status != Completed { // it ended before anything was written
				return false
			}
			return yield(item, err)
		})
	}
}

func parseBedrockRow(line []byte) row {
	r, v, ok := newRow(line)
	if !ok {
		return r
	}
	r.setKey(v.TextOf("recordId"))
	if output, ok := v.Get("modelOutput"); ok && output.Kind() == jsonedit.Object {
		r.status, r.body = http.StatusOK, output.Raw()
	}
	if fault, ok := v.Get("error"); ok && !fault.IsNull() {
		r.status, r.body = 0, nil
		code := "provider_error"
		if n, ok := fault.Get("errorCode"); ok {
			if i, isInt := n.Int(); isInt {
				code = codeOfNumber(i)
			} else if text, isText := n.Text(); isText {
				code = text
			}
		}
		r.fault = &LineError{Code: code, Message: messageOf(fault.Raw(), fault.TextOf("errorMessage"))}
	}
	r.needResponse()
	return r
}
