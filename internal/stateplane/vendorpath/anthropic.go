package vendorpath

import (
	"encoding/json"
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/batches"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// serveFiles serves a request below /files of a client of Anthropic.
// https://docs.claude.com/en/api/files-create
func serveFiles(q *kept.Request, rest string) error {
	id, action, _ := strings.Cut(rest, "/")
	method := q.HTTP.Method
	switch {
	case rest == "" && method == http.MethodPost:
		return createFile(q)
	case rest == "" && method == http.MethodGet:
		return listFiles(q)
	case id == "" || action != "" && action != "content":
		return noRoute(q)
	}
	o, passed, err := find(q, store.ObjectAnthropicFile, id)
	switch {
	case passed || err != nil:
		return err
	case action == "content" && (method == http.MethodGet || method == http.MethodHead):
		return relay(q, &o)
	case action == "" && method == http.MethodGet:
		return show(q, &o, adoptFile)
	case action == "" && method == http.MethodDelete:
		return q.DeleteThere(&o)
	}
	return noRoute(q)
}

func createFile(q *kept.Request) error {
	res, err := create(q, store.ObjectAnthropicFile, "gw_afile_", adoptFile)
	if err != nil {
		return err
	}
	return res.Send(q.W)
}

// adoptFile puts a file into its record, as its provider describes it.
func adoptFile(o *store.Object, body []byte) error {
	var f struct {
		ID        string `json:"id"`
		Filename  string `json:"filename"`
		Size      int64  `json:"size_bytes"`
		ExpiresAt string `json:"expires_at"`
	}
	if err := json.Unmarshal(body, &f); err != nil || f.ID == "" {
		return kept.RefuseUnreadable("file")
	}
	return describe(o, files.Details{Filename: f.Filename, Bytes: f.Size, Shown: body}, f.ID, files.StateUploaded, f.ExpiresAt)
}

// maxIDs limits the ids that a list is asked for.
const maxIDs = 100

// listFiles lists the files of the workspace.
func listFiles(q *kept.Request) error {
	if listsThere(q) {
		return q.Pass(store.ObjectAnthropicFile)
	}
	query := q.HTTP.URL.Query()
	ids := append(query["ids"], query["ids[]"]...)
	switch {
	case query.Has("scope_id"):
		return apierr.New(apierr.Invalid, "scope_id is not supported: a list has the files of the workspace of the key; leave it out").WithParam("scope_id")
	case len(ids) > maxIDs:
		return apierr.New(apierr.Invalid, "ids has %d ids; at most %d are allowed", len(ids), maxIDs).WithParam("ids")
	}
	var list []store.Object
	var more bool
	var err error
	if len(ids) == 0 {
		list, more, err = listPage(q, store.ObjectAnthropicFile, query)
	}
	for _, id := range ids {
		o, lookup := q.Find(store.ObjectAnthropicFile, id)
		if lookup == nil && o.ProviderID != "" {
			list = append(list, o)
		} else if lookup != nil && !apierr.IsNotFound(lookup) {
			return lookup
		}
	}
	if err != nil {
		return err
	}
	p, err := newPage(list, more)
	if err != nil {
		return err
	}
	if more && query.Get("before_id") == "" {
		next := pagePrefix + *p.LastID
		p.NextPage = &next
	}
	return q.JSON(http.StatusOK, p)
}

// serveBatches serves a request below /messages/batches.
// https://docs.claude.com/en/api/creating-message-batches
func serveBatches(q *kept.Request, rest string) error {
	id, action, _ := strings.Cut(rest, "/")
	route := q.HTTP.Method + " " + action
	switch {
	case rest == "" && q.HTTP.Method == http.MethodPost:
		return createBatch(q)
	case rest == "" && q.HTTP.Method == http.MethodGet:
		return listBatches(q)
	case id == "":
		return noRoute(q)
	}
	o, passed, err := messageBatches.find(q, id)
	switch {
	case passed || err != nil:
		return err
	case route == "GET results":
		return relay(q, &o)
	case route == "GET " || route == "POST cancel":
		return messageBatches.show(q, &o)
	case route == "DELETE ":
		return deleteBatch(q, &o)
	}
	return noRoute(q)
}

// createBatch creates a batch. Its body streams through: if the provider has a list of models,
// those in it are compared with the list as those of any body.
func createBatch(q *kept.Request) error {
	if err := batches.CheckNative(q); err != nil {
		return err
	}
	at := q.From.Provider
	return messageBatches.create(q, at, q.Forwarded(at), &nativeInput{endpoint: "/v1/messages"})
}

// messageBatches are the batches of messages.
var messageBatches = nativeBatches{
	kind: store.ObjectAnthropicBatch, prefix: "gw_abatch_", dialect: api.DialectMessages, path: "/v1/messages/batches/",
	adopt: adoptBatch, see: seeBatch, ended: hasEnded,
}

// messageBatch is what the gateway reads of a batch.
type messageBatch struct {
	ID     string `json:"id"`
	Status string `json:"processing_status"`
}

// hasEnded reports whether a batch has all of its results.
func hasEnded(shown json.RawMessage) bool {
	var b messageBatch
	return json.Unmarshal(shown, &b) == nil && b.Status == "ended"
}

// adoptBatch puts a batch into its record, as its provider describes it.
func adoptBatch(o *store.Object, body []byte) error {
	var b messageBatch
	if err := json.Unmarshal(body, &b); err != nil || b.ID == "" {
		return kept.RefuseUnreadable("batch")
	}
	o.ProviderID = b.ID
	return batches.DescribeNative(o, body)
}

// seeBatch stores what a provider says of a batch.
func seeBatch(q *kept.Request, o *store.Object, body []byte) error {
	if hasEnded(body) {
		batches.HastenNative(q, o)
	}
	return update(q, o, body, adoptBatch)
}

// deleteBatch deletes a batch that has ended, as its provider does. One that has not is not
// deleted there either: it could end at that moment, and its costs could not be read.
func deleteBatch(q *kept.Request, o *store.Object) error {
	n, err := batches.NativeOf(o)
	if err != nil {
		return err
	}
	if !n.Settled && !hasEnded(n.Shown) {
		shown, status, err := messageBatches.refresh(q, o)
		switch {
		case err != nil:
			return err
		case status == http.StatusNotFound: // nothing is left that could be read
			return q.DeleteThere(o)
		case !hasEnded(shown):
			return apierr.New(apierr.Conflict, "the batch has not ended; cancel it, and delete it when it has ended").
				WithParam("id").WithCode("batch_not_ended")
		}
	}
	return messageBatches.drop(q, o, map[string]string{"id": o.ProviderID, "type": "message_batch_deleted"})
}

// listBatches lists the batches of the workspace.
func listBatches(q *kept.Request) error {
	if listsThere(q) {
		return q.Pass(store.ObjectAnthropicBatch)
	}
	list, more, err := listPage(q, store.ObjectAnthropicBatch, q.HTTP.URL.Query())
	if err != nil {
		return err
	}
	shown, err := messageBatches.list(q, list)
	if err != nil {
		return err
	}
	p := cursorPage{Data: make([]json.RawMessage, len(shown)), HasMore: more}
	for i := range shown {
		p.Data[i] = shown[i].shown
	}
	switch {
	case len(shown) > 0:
		p.FirstID, p.LastID = &shown[0].id, &shown[len(shown)-1].id
	case more: // all of the page were deleted; the next one begins there
		p.FirstID, p.LastID = &list[0].ProviderID, &list[len(list)-1].ProviderID
	}
	return q.JSON(http.StatusOK, p)
}
