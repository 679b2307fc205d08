package vendorpath

import (
	"encoding/json"
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
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
	o, passed, err := find(q, store.ObjectAnthropicBatch, id)
	switch {
	case passed || err != nil:
		return err
	case route == "GET results":
		return relay(q, &o)
	case route == "GET " || route == "POST cancel":
		return show(q, &o, adoptBatch)
	case route == "DELETE ":
		return q.DeleteThere(&o)
	}
	return noRoute(q)
}

func createBatch(q *kept.Request) error {
	res, err := create(q, store.ObjectAnthropicBatch, "gw_abatch_", adoptBatch)
	if err != nil {
		return err
	}
	return res.Send(q.W)
}

// stateEnded is the state of a batch that has all of its results.
const stateEnded = "ended"

// adoptBatch puts a batch into its record, as its provider describes it.
func adoptBatch(o *store.Object, body []byte) error {
	var b struct {
		ID     string `json:"id"`
		Status string `json:"processing_status"`
	}
	if err := json.Unmarshal(body, &b); err != nil || b.ID == "" {
		return kept.RefuseUnreadable("batch")
	}
	return describe(o, files.Details{Shown: body}, b.ID, b.Status, "")
}

// maxRefreshed limits the batches of a list whose provider is asked for their state. Others
// are listed as they were last seen.
const maxRefreshed = 20

// listBatches lists the batches of the workspace.
func listBatches(q *kept.Request) error {
	if listsThere(q) {
		return q.Pass(store.ObjectAnthropicBatch)
	}
	list, more, err := listPage(q, store.ObjectAnthropicBatch, q.HTTP.URL.Query())
	if err != nil {
		return err
	}
	asked := 0
	for i := range list {
		if list[i].State == stateEnded || asked == maxRefreshed {
			continue
		}
		asked++
		if err := refreshBatch(q, &list[i]); err != nil {
			return err
		}
	}
	p, err := newPage(list, more)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, p)
}

// refreshBatch asks the provider of a batch for its state. A provider that does not answer
// leaves it as it is.
func refreshBatch(q *kept.Request, o *store.Object) error {
	r := q.Forwarded(o.Provider)
	r.RequestURI, r.Method, r.Body, r.ContentLength = "/v1/messages/batches/"+o.ProviderID, http.MethodGet, http.NoBody, 0
	var res kept.Capture
	q.From.Ask(&res, r, q.CallTo(o.Provider))
	if !res.OK() {
		return nil
	}
	return update(q, o, res.Body, adoptBatch)
}
