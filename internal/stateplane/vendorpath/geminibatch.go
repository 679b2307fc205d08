package vendorpath

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/batches"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// batchMethods are the endpoints of the methods that create batches of Gemini.
var batchMethods = map[string]string{"batchGenerateContent": "/v1/chat/completions", "asyncBatchEmbedContent": "/v1/embeddings"}

// serveGeminiBatches serves a request to batches of Gemini.
// https://ai.google.dev/api/batch-api
func serveGeminiBatches(q *kept.Request) error {
	if namesOther(q, api.DialectGemini) {
		return q.Through() // it is refused: the provider has no such path
	}
	method := q.HTTP.Method
	if rest, ok := strings.CutPrefix(q.From.Path, "/v1beta/models/"); ok {
		escaped, name, _ := strings.Cut(rest, ":")
		model, err := url.PathUnescape(escaped)
		if method != http.MethodPost || err != nil || batchMethods[name] == "" {
			return noRoute(q)
		}
		return createGeminiBatch(q, model, batchMethods[name])
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(q.From.Path, "/v1beta/batches"), "/")
	id, action, _ := strings.Cut(rest, ":")
	switch {
	case rest == "" && method == http.MethodGet:
		return listGeminiBatches(q)
	case id == "" || strings.Contains(rest, "/"):
		return noRoute(q)
	}
	o, passed, err := geminiBatches.find(q, "batches/"+id)
	switch {
	case passed || err != nil:
		return err
	case action == "cancel" && method == http.MethodPost:
		return relay(q, &o)
	case action == "" && method == http.MethodGet:
		return geminiBatches.show(q, &o)
	case action == "" && method == http.MethodDelete:
		return geminiBatches.drop(q, &o, struct{}{})
	}
	return noRoute(q)
}

// createGeminiBatch creates a batch, whose requests are in the body or in a file. It is
// followed, and billed when it has ended.
func createGeminiBatch(q *kept.Request, model, endpoint string) error {
	if err := batches.CheckNative(q); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(q.HTTP.Body, q.From.MaxJSON+1))
	switch {
	case err != nil:
		return apierr.New(apierr.Invalid, "the request body is incomplete; send it again").WithCode("body_incomplete").WithCause(err)
	case int64(len(body)) > q.From.MaxJSON:
		return apierr.New(apierr.TooLarge, "the request body is larger than the limit of %d bytes; send the requests in a file", q.From.MaxJSON)
	}
	names, err := filesOfBatch(body)
	if err != nil {
		return err
	}
	at := q.From.Provider
	for _, name := range names {
		file, err := q.Find(store.ObjectGeminiFile, name)
		switch {
		case apierr.IsNotFound(err) && mayPass(q):
			return q.PassBody(store.ObjectGeminiBatch, body)
		case apierr.IsNotFound(err):
			return kept.NotFound(store.ObjectGeminiFile, "batch.inputConfig")
		case err != nil:
			return err
		case at != "" && at != file.Provider:
			return apierr.New(apierr.Invalid, "the file %.60q is at the provider %s, and the batch would be at %s; name the provider that has its files", name,
				file.Provider, at).WithParam("batch.inputConfig").WithCode("file_of_another_provider")
		}
		at = file.Provider
	}
	r := q.Forwarded(at)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return geminiBatches.create(q, at, r, &nativeInput{endpoint, model})
}

// geminiBatches are the batches of Gemini.
var geminiBatches = nativeBatches{
	kind: store.ObjectGeminiBatch, prefix: "gw_gbatch_", dialect: api.DialectGemini, path: "/v1beta/",
	adopt: adoptGeminiBatch, see: seeGeminiBatch,
	ended: func(shown json.RawMessage) bool {
		var b geminiBatch
		return json.Unmarshal(shown, &b) == nil && b.Done
	},
}

// geminiBatch is what the gateway reads of a batch.
type geminiBatch struct {
	Name     string       `json:"name"`
	Done     bool         `json:"done"`
	Response geminiOutput `json:"response"`
	Metadata struct {
		Output geminiOutput `json:"output"`
	} `json:"metadata"`
}

type geminiOutput struct {
	ResponsesFile string `json:"responsesFile"`
}

// adoptGeminiBatch puts a batch into its record, as its provider describes it. The results
// are left out: a read asks the provider.
func adoptGeminiBatch(o *store.Object, body []byte) error {
	var b geminiBatch
	if err := json.Unmarshal(body, &b); err != nil || !strings.HasPrefix(b.Name, "batches/") {
		return kept.RefuseUnreadable("batch")
	}
	o.ProviderID = b.Name
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return kept.RefuseUnreadable("batch")
	}
	var metadata map[string]json.RawMessage
	if json.Unmarshal(all["metadata"], &metadata) == nil && b.Response.ResponsesFile == "" && b.Metadata.Output.ResponsesFile == "" {
		delete(all, "response")
		delete(metadata, "output")
		all["metadata"], _ = json.Marshal(metadata) // of valid JSON
	}
	shown, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return batches.DescribeNative(o, shown)
}

// seeGeminiBatch stores what a provider says of a batch. The file of its results gets a record
// before the client learns its name.
func seeGeminiBatch(q *kept.Request, o *store.Object, body []byte) error {
	var b geminiBatch
	if json.Unmarshal(body, &b) != nil || b.Name != o.ProviderID {
		return nil
	}
	name := b.Response.ResponsesFile
	if name == "" {
		name = b.Metadata.Output.ResponsesFile
	}
	if err := addResultFile(q, o, strings.TrimPrefix(name, "files/")); err != nil {
		return err
	}
	if b.Done {
		batches.HastenNative(q, o)
	}
	return update(q, o, body, adoptGeminiBatch)
}

// addResultFile adds a record of a file of results; an empty id is none.
func addResultFile(q *kept.Request, o *store.Object, id string) error {
	if id == "" {
		return nil
	}
	if _, err := q.Find(store.ObjectGeminiFile, id); !apierr.IsNotFound(err) {
		return err
	}
	file := q.NewObject(store.ObjectGeminiFile, "gw_gfile_")
	file.KeyID, file.Provider, file.Integration = o.KeyID, o.Provider, o.Integration
	shown, err := json.Marshal(map[string]string{"name": "files/" + id})
	if err == nil {
		err = describe(&file, files.Details{Filename: id, Shown: shown}, id, "ACTIVE", "")
	}
	if err != nil {
		return err
	}
	err = q.Change(func(tx *store.Tx) error { return q.Add(context.WithoutCancel(q.HTTP.Context()), tx, file) })
	if _, exists := q.Find(store.ObjectGeminiFile, id); exists == nil { // another read has just added it
		return nil
	}
	return err
}

// listGeminiBatches lists the batches of the workspace.
func listGeminiBatches(q *kept.Request) error {
	if listsThere(q) {
		return q.Pass(store.ObjectGeminiBatch)
	}
	list, next, err := geminiPage(q, store.ObjectGeminiBatch)
	if err != nil {
		return err
	}
	var out struct {
		Operations []json.RawMessage `json:"operations,omitempty"`
		Next       string            `json:"nextPageToken,omitempty"`
	}
	out.Next = next
	shown, err := geminiBatches.list(q, list)
	if err != nil {
		return err
	}
	for _, b := range shown {
		out.Operations = append(out.Operations, b.shown)
	}
	return q.JSON(http.StatusOK, out)
}
