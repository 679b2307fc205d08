package vendorbatch

import (
	"context"
	"io"
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/stateplane/vendorcall"
)

// folder returns the folder in a bucket with the input of a batch, and with its results unless
// the request names another.
func (j *job) folder() string { return "modelgate/" + safeName(first(j.in.OwnID, "batch")) }

// outputFolder returns the address of the folder of the results, without a slash at its end:
// that of output_data_config, or one next to the input.
func (j *job) outputFolder(scheme, bucket string) (string, error) {
	given := j.in.option("output_data_config")
	if given == "" {
		return scheme + bucket + "/" + j.folder() + "/output", nil
	}
	_, key, ok := splitAddress(given, scheme)
	if _, err := urlpath.Canonical("/" + resourcePath(key)); !ok || err != nil || len(given) > maxAddress {
		return "", apierr.New(apierr.Invalid, "output_data_config must be a folder such as %sbucket/results/", scheme).
			WithParam("output_data_config")
	}
	return strings.TrimRight(given, "/"), nil
}

// maxAddress limits the address of a folder: keys have up to 1024 bytes.
const maxAddress = 1024

// splitAddress returns the bucket and the key of an address such as gs://bucket/key.
func splitAddress(address, scheme string) (bucket, key string, ok bool) {
	rest, ok := strings.CutPrefix(address, scheme)
	bucket, key, _ = strings.Cut(rest, "/")
	return bucket, strings.Trim(key, "/"), ok && bucket != ""
}

// putObject uploads the input as an object of a bucket, which r names. It sets the body.
func (j *job) putObject(ctx context.Context, r *vendorcall.Request) error {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Content-Type", "application/jsonl")
	r.Body, r.Length = j.content("", "\n", "\n")
	res, err := j.open(ctx, r)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxReply)) // so that the connection is used again
	return res.Body.Close()
}
