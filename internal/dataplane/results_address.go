package dataplane

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

// Client libraries of Anthropic get the results of a batch from the address in this field of
// the batch, as it is and with the key of the client: the gateway key.
// https://docs.claude.com/en/api/retrieving-message-batches
const (
	resultsField = "results_url"
	batchesPath  = "/messages/batches"
)

// batchPath matches what follows batchesPath in the paths whose responses are batches.
var batchPath = regexp.MustCompile(`^(/|/[^/]+(/cancel)?)?$`)

// maxBatches bounds a list of batches, of which there are at most 1000 of half a kilobyte.
const maxBatches = 8 << 20

// ownResultsURLs replaces the provider's addresses of results in batches of messages with
// the gateway's. It reports whether the content of res has changed; it is then not encoded.
func (p *Plane) ownResultsURLs(r *http.Request, x *roundTrip, res *exchange.Response) (changed bool, err error) {
	base, rest, ok := strings.Cut(x.entry.Path, batchesPath)
	if !ok || x.admission.request.Operation != api.Proxy || res.Status >= 300 || !batchPath.MatchString(rest) {
		return false, nil
	}
	if res.Bytes == nil && res.Body != nil {
		if res.Bytes, err = io.ReadAll(io.LimitReader(res.Body, maxBatches+1)); err == nil && len(res.Bytes) > maxBatches {
			err = errors.New("the batches are larger than 8 MB")
		}
		if err != nil {
			return false, refuseBatches(err)
		}
		res.Length = -1
	}
	plain, err := decoded(res)
	if err != nil {
		return false, refuseBatches(err)
	}
	addresses := resultsURLs(plain)
	if len(addresses) == 0 {
		return false, nil
	}
	own := strings.TrimSuffix(p.ownAddress(r), "/")
	for _, raw := range addresses {
		plain = bytes.ReplaceAll(plain, raw.Raw(), ownResults(own, base, raw))
	}
	res.Bytes = plain
	return true, nil
}

func refuseBatches(err error) error {
	return apierr.New(apierr.UpstreamFailed, "the addresses of results in the provider's batches could not be replaced: %v",
		err).WithCode("upstream_unreadable")
}

// decoded returns the content of a response without its encoding.
func decoded(res *exchange.Response) ([]byte, error) {
	coding := res.Header.Get("Content-Encoding")
	if contentcoding.IsIdentity(coding) {
		return res.Bytes, nil
	}
	d, err := contentcoding.NewReader(coding, bytes.NewReader(res.Bytes), maxBatches)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return io.ReadAll(d)
}

// resultsURLs returns the addresses of results at a host in a batch or a list of batches.
func resultsURLs(body []byte) (list []jsonedit.Value) {
	root, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil
	}
	add := func(batch jsonedit.Value) {
		for key, v := range batch.Fields() { // a name may be duplicated
			if text, ok := v.Text(); ok && key.Is(resultsField) && strings.Contains(text, "//") { // names a host
				list = append(list, v)
			}
		}
	}
	add(root)
	if data, ok := root.Get("data"); ok {
		for batch := range data.Elements() {
			add(batch)
		}
	}
	return list
}

// ownResults returns the gateway's address for an address of results, as JSON. Base is what
// the path of the request has before that of batches. An address that is none of results
// becomes null, as if there were none yet.
func ownResults(own, base string, raw jsonedit.Value) []byte {
	text, _ := raw.Text()
	u, err := url.Parse(text)
	if err != nil || own == "" {
		return []byte("null")
	}
	_, rest, ok := strings.Cut(u.EscapedPath(), batchesPath+"/")
	if !ok {
		return []byte("null")
	}
	address := own + base + batchesPath + "/" + rest
	if u.RawQuery != "" {
		address += "?" + u.RawQuery
	}
	return jsonedit.AppendString(nil, address)
}
