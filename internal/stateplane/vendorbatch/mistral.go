package vendorbatch

import (
	"context"
	"iter"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
)

// mistral is Mistral's batch API. Its files are those of OpenAI, its jobs are not.
// https://docs.mistral.ai/api/endpoint/batch
type mistral struct{ openAI }

type mistralJob struct {
	ID         string   `json:"id"`
	InputFiles []string `json:"input_files"`
	Endpoint   string   `json:"endpoint"`
	Errors     []struct {
		Message string `json:"message"`
	} `json:"errors"`
	Status      string   `json:"status"`
	CreatedAt   unixTime `json:"created_at"`
	StartedAt   unixTime `json:"started_at"`
	CompletedAt unixTime `json:"completed_at"`
	Total       count    `json:"total_requests"`
	Succeeded   count    `json:"succeeded_requests"`
	Failed      count    `json:"failed_requests"`
	Metadata    textMap  `json:"metadata"`
	Model       string   `json:"model"`
	OutputFile  string   `json:"output_file"`
	ErrorFile   string   `json:"error_file"`
}

// unified returns the batch as clients see it.
func (m *mistralJob) unified(v *view) (*Batch, error) {
	if !isID(m.ID) {
		return nil, v.unreadable(errNoID)
	}
	b := &Batch{
		ID: m.ID, Object: "batch", Endpoint: m.Endpoint, Model: m.Model, OutputFileID: m.OutputFile, ErrorFileID: m.ErrorFile,
		CreatedAt: int64(m.CreatedAt), InProgressAt: int64(m.StartedAt),
		RequestCounts: Counts{int64(m.Total), int64(m.Succeeded), int64(m.Failed)}, OwnID: m.Metadata[ownKey],
	}
	if len(m.InputFiles) > 0 {
		b.InputFileID = m.InputFiles[0]
	}
	if len(m.Metadata) > 0 {
		b.Metadata = maps.Clone(m.Metadata)
		delete(b.Metadata, ownKey)
	}
	if len(m.Errors) > 0 {
		b.Errors = &Errors{}
		for _, e := range m.Errors {
			b.Errors.add(0, "provider_error", "", messageOf(nil, e.Message))
		}
	}
	v.states.set(b, m.Status)
	b.setEnd(m.CompletedAt)
	return b, nil
}

func (d *mistral) create(ctx context.Context, j *job) (*Batch, error) {
	hours, err := hoursOf(j.in.Window)
	if err != nil {
		return nil, err
	}
	fileID, err := d.uploadInput(ctx, j)
	if err != nil {
		return nil, err
	}
	body := map[string]any{
		"input_files": []string{fileID}, "endpoint": j.in.Endpoint, "model": j.codec.model, "timeout_hours": hours,
	}
	if m := metadataOf(j.in); len(m) > 0 {
		body["metadata"] = m
	}
	var reply mistralJob
	if err := j.post(ctx, "/batch/jobs", body, &reply); err != nil {
		return nil, markUnanswered(err)
	}
	b, err := reply.unified(&j.view)
	return b, markUnanswered(err)
}

// maxHours is the longest window of Mistral.
const maxHours = 7 * 24

// hoursOf returns the hours of a window such as 24h or 7d. The default is 24.
func hoursOf(window string) (int, error) {
	text := first(window, "24h")
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n <= maxHours {
			text = strconv.Itoa(24*n) + "h"
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Hour || d > maxHours*time.Hour || d%time.Hour != 0 {
		return 0, apierr.New(apierr.Invalid, "completion_window must be 1h to 168h, or 1d to 7d").
			WithParam("completion_window").WithCode("unsupported_window")
	}
	return int(d / time.Hour), nil
}

// record omits method and url, which Mistral refuses.
func (*mistral) record(dst []byte, _ *Line, key string, body []byte) []byte {
	return appendShortLine(dst, "custom_id", key, "body", body)
}

func (*mistral) get(ctx context.Context, v *view, id string) (*Batch, error) {
	var reply mistralJob
	if err := v.client.get(ctx, "/batch/jobs/"+url.PathEscape(id), "", &reply); err != nil {
		return nil, err
	}
	return reply.unified(v)
}

func (*mistral) cancel(ctx context.Context, v *view, id string) error {
	return v.post(ctx, "/batch/jobs/"+url.PathEscape(id)+"/cancel", nil, nil)
}

func (*mistral) find(ctx context.Context, v *view, in *Input) (*Batch, error) {
	for page := range maxPages {
		query := url.Values{"page": {strconv.Itoa(page)}, "page_size": {"100"}}
		var list struct {
			Data []mistralJob `json:"data"`
		}
		if err := v.client.get(ctx, "/batch/jobs", query.Encode(), &list); err != nil {
			return nil, err
		}
		for i := range list.Data {
			if list.Data[i].Metadata[ownKey] == in.OwnID {
				return list.Data[i].unified(v)
			}
		}
		if len(list.Data) < 100 {
			break
		}
	}
	return nil, nil
}

func (*mistral) rows(ctx context.Context, v *view, b *Batch, _ *Input) iter.Seq2[row, error] {
	return fileRows(ctx, v, parseRow, b.OutputFileID, b.ErrorFileID)
}
