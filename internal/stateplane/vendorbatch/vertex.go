package vendorbatch

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/vendorcall"
)

// vertex is batch prediction of Vertex AI: input and results are objects in Google Cloud
// Storage. Results are in any order and have no key, so that a label of each request
// has the number of its line. The options are project_id, region, storage_bucket_name, and
// output_data_config with the folder of the results.
// https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/batch-prediction-from-cloud-storage
type vertex struct{}

// lineLabel is the label with the key of a line, and recordLabel that of a job with the
// record's id.
const (
	lineLabel   = "modelgate_line"
	recordLabel = "modelgate_record"
)

type vertexJob struct {
	Name        string       `json:"name"`
	DisplayName string       `json:"displayName"`
	Model       string       `json:"model"`
	State       string       `json:"state"`
	CreateTime  unixTime     `json:"createTime"`
	StartTime   unixTime     `json:"startTime"`
	EndTime     unixTime     `json:"endTime"`
	Error       *googleError `json:"error"`
	InputConfig struct {
		Source struct {
			URIs []string `json:"uris"`
		} `json:"gcsSource"`
	} `json:"inputConfig"`
	OutputInfo struct {
		Directory string `json:"gcsOutputDirectory"`
	} `json:"outputInfo"`
	Stats struct {
		Successful count `json:"successfulCount"`
		Failed     count `json:"failedCount"`
		Incomplete count `json:"incompleteCount"`
	} `json:"completionStats"`
}

// unified returns the batch as clients see it.
func (x *vertexJob) unified(v *view) (*Batch, error) {
	if !strings.Contains(x.Name, "/batchPredictionJobs/") || !isID(x.Name) {
		return nil, v.unreadable(errNoID)
	}
	n := &x.Stats
	b := &Batch{
		ID: x.Name, Object: "batch", Model: x.Model[strings.LastIndexByte(x.Model, '/')+1:], CreatedAt: int64(x.CreateTime),
		InProgressAt: int64(x.StartTime), Errors: x.Error.errors(), Output: x.OutputInfo.Directory, OwnID: ownIDIn(x.DisplayName),
		RequestCounts: Counts{int64(n.Successful + n.Failed + n.Incomplete), int64(n.Successful), int64(n.Failed)},
	}
	if len(x.InputConfig.Source.URIs) > 0 {
		b.InputFileID = x.InputConfig.Source.URIs[0]
	}
	v.states.set(b, googleState(x.State))
	b.VendorStatus = x.State
	b.setEnd(x.EndTime)
	return b, nil
}

// jobs returns the path of the jobs of a project and region.
func (vertex) jobs(v *view, in *Input) (string, error) {
	project, region := in.option("project_id"), in.option("region")
	if project == "" {
		return "", v.errOption("project_id", "project_id", "a project of Google Cloud")
	}
	if region == "" {
		return "", v.errOption("region", "region", "a region")
	}
	return "/v1/projects/" + url.PathEscape(project) + "/locations/" + url.PathEscape(region) + "/batchPredictionJobs", nil
}

func (d vertex) create(ctx context.Context, j *job) (*Batch, error) {
	jobs, err := d.jobs(&j.view, j.in)
	if err != nil {
		return nil, err
	}
	bucket := j.in.option("storage_bucket_name")
	if bucket == "" {
		return nil, j.errOption("storage_bucket_name", "storage_bucket_name", "a bucket of Google Cloud Storage")
	}
	output, err := j.outputFolder("gs://", bucket)
	if err != nil {
		return nil, err
	}
	folder := j.folder()
	source := j.in.FileID
	if source == "" {
		source = "gs://" + bucket + "/" + folder + "/input.jsonl"
		r := &vendorcall.Request{
			Service: vendorcall.ServiceGCS, Method: http.MethodPost, Path: "/upload" + objectsOf(bucket),
			Query: url.Values{"uploadType": {"media"}, "name": {folder + "/input.jsonl"}}.Encode(),
		}
		if err := j.putObject(ctx, r); err != nil {
			return nil, wrap(err, "uploading the input of a batch")
		}
		j.uploaded = source
	}
	publisher := "google"
	if j.codec.speaks == api.DialectMessages {
		publisher = "anthropic"
	}
	body := map[string]any{
		"displayName":  j.displayName(),
		"model":        "publishers/" + publisher + "/models/" + j.spec.UpstreamModelName(j.codec.model),
		"inputConfig":  map[string]any{"instancesFormat": "jsonl", "gcsSource": map[string]any{"uris": []string{source}}},
		"outputConfig": map[string]any{"predictionsFormat": "jsonl", "gcsDestination": map[string]any{"outputUriPrefix": output}},
	}
	if j.in.OwnID != "" {
		body["labels"] = map[string]string{recordLabel: strings.ToLower(safeName(j.in.OwnID))}
	}
	var reply vertexJob
	if err := j.post(ctx, jobs, body, &reply); err != nil {
		return nil, markUnanswered(err)
	}
	b, err := reply.unified(&j.view)
	return b, markUnanswered(err)
}

func (vertex) removal(id string) *vendorcall.Request {
	bucket, key, _ := splitAddress(id, "gs://")
	return &vendorcall.Request{Service: vendorcall.ServiceGCS, Method: http.MethodDelete, Path: objectAt(bucket, key)}
}

// objectsOf returns the path of the objects of a bucket.
// https://cloud.google.com/storage/docs/json_api/v1/objects
func objectsOf(bucket string) string { return "/storage/v1/b/" + url.PathEscape(bucket) + "/o" }

// objectAt returns the path of an object, whose name is one segment of it.
func objectAt(bucket, key string) string { return objectsOf(bucket) + "/" + url.PathEscape(key) }

// record adds the label with the key of the line. Requests of other publishers have a
// member for the key.
func (vertex) record(dst []byte, _ *Line, key string, body []byte) []byte {
	var doc jsonedit.Doc
	if doc.Scan(body) != nil {
		return dst
	}
	if _, messages := doc.Find("anthropic_version"); messages {
		return appendShortLine(dst, "custom_id", key, "request", body)
	}
	labels := jsonedit.Append(nil)
	labels.Open('{')
	if old, ok := doc.Find("labels"); ok {
		for name, v := range old.Fields() {
			if !name.Is(lineLabel) {
				labels.Key(name.String())
				labels.Raw(v.Raw())
			}
		}
	}
	labels.Name(lineLabel)
	labels.String(key)
	labels.Close('}')
	b := jsonedit.AppendLine(dst)
	b.Open('{')
	b.Name("request")
	b.Raw(doc.Apply(nil, jsonedit.Edit{Name: "labels", Value: labels.Bytes()}))
	b.Close('}')
	return b.Bytes()
}

func (vertex) get(ctx context.Context, v *view, id string) (*Batch, error) {
	var reply vertexJob
	if err := v.client.get(ctx, "/v1/"+resourcePath(id), "", &reply); err != nil {
		return nil, err
	}
	return reply.unified(v)
}

func (vertex) cancel(ctx context.Context, v *view, id string) error {
	return v.post(ctx, "/v1/"+resourcePath(id)+":cancel", nil, nil)
}

func (d vertex) find(ctx context.Context, v *view, in *Input) (*Batch, error) {
	jobs, err := d.jobs(v, in)
	if err != nil {
		return nil, err
	}
	query := url.Values{"filter": {"labels." + recordLabel + "=" + strconv.Quote(strings.ToLower(safeName(in.OwnID)))}}
	var list struct {
		Jobs []vertexJob `json:"batchPredictionJobs"`
	}
	if err := v.client.get(ctx, jobs, query.Encode(), &list); err != nil {
		return nil, err
	}
	for i := range list.Jobs {
		if ownIDIn(list.Jobs[i].DisplayName) == safeName(in.OwnID) {
			return list.Jobs[i].unified(v)
		}
	}
	return nil, nil
}

func (d vertex) rows(ctx context.Context, v *view, b *Batch, _ *Input) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		bucket, folder, ok := splitAddress(b.Output, "gs://")
		if !ok {
			return // it ended before anything was written
		}
		names, err := d.files(ctx, v, bucket, folder)
		if err != nil {
			yield(row{}, wrap(err, "listing the results"))
			return
		}
		for _, name := range names {
			r := &vendorcall.Request{Service: vendorcall.ServiceGCS, Method: http.MethodGet, Path: objectAt(bucket, name), Query: "alt=media"}
			if !v.readRows(ctx, r, parseVertexRow, yield) {
				return
			}
		}
	}
}

// files returns the names of the objects with results: predictions.jsonl, or several.
// https://cloud.google.com/storage/docs/json_api/v1/objects/list
func (vertex) files(ctx context.Context, v *view, bucket, folder string) (names []string, err error) {
	token := ""
	for range maxPages {
		query := url.Values{"prefix": {folder + "/"}}
		if token != "" {
			query.Set("pageToken", token)
		}
		var page struct {
			Items []struct {
				Name string `json:"name"`
			} `json:"items"`
			Token string `json:"nextPageToken"`
		}
		r := &vendorcall.Request{Service: vendorcall.ServiceGCS, Method: http.MethodGet, Path: objectsOf(bucket), Query: query.Encode()}
		if err := v.do(ctx, r, &page); err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			if path.Ext(item.Name) == ".jsonl" && strings.HasPrefix(item.Name, folder+"/") {
				names = append(names, item.Name)
			}
		}
		if token = page.Token; token == "" {
			slices.Sort(names)
			return names, nil
		}
	}
	return nil, errors.New("the results are in too many files")
}

// parseVertexRow reads a result, whose key is in its request.
func parseVertexRow(line []byte) row {
	r, v, ok := newRow(line)
	if !ok {
		return r
	}
	request, _ := v.Get("request")
	labels, _ := request.Get("labels")
	r.setKey(first(v.TextOf("custom_id"), labels.TextOf(lineLabel)))
	r.setGoogle(v)
	return r
}
