package replicate

import (
	"errors"
	"net/url"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

var errNoJob = errors.New("the body is not a prediction")

// ended are the final states.
var ended = map[string]bool{"succeeded": true, "failed": true, "canceled": true, "aborted": true}

// ReadJob reads the state of a prediction.
func (Dialect) ReadJob(body []byte) (dialect.Job, error) {
	v, err := jsonedit.ParseValue(body)
	id, status := v.TextOf("id"), v.TextOf("status")
	if err != nil || id == "" || status == "" {
		return dialect.Job{}, errNoJob
	}
	urls, _ := v.Get("urls")
	path := "/predictions/" + url.PathEscape(id)
	job := dialect.Job{Path: path, Cancel: path + "/cancel", Stream: urls.TextOf("stream"), Done: ended[status]}
	if job.Done && status != "succeeded" {
		job.Failed = status
		if words := v.TextOf("error"); words != "" {
			job.Failed += ": " + words
		}
	}
	return job, nil
}
