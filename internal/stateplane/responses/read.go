package responses

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// includes are the values of include: those of the specification, and those that today's
// clients send.
var includes = []string{
	"file_search_call.results", "message.input_image.image_url", "computer_call_output.output.image_url",
	"web_search_call.results", "web_search_call.action.sources", "code_interpreter_call.outputs", "reasoning.encrypted_content",
	"message.output_text.logprobs",
}

// checkInclude checks the values of include in all of its spellings: repeated, with
// brackets, and separated by commas.
func checkInclude(query url.Values) error {
	for name, values := range query {
		if name != "include" && !(strings.HasPrefix(name, "include[") && strings.HasSuffix(name, "]")) {
			continue
		}
		for _, list := range values {
			for v := range strings.SplitSeq(list, ",") {
				if v = strings.TrimSpace(v); v != "" && !slices.Contains(includes, v) {
					return apierr.New(apierr.Invalid, "include must be of %s, not %.60q", strings.Join(includes, ", "), v).
						WithParam("include").WithCode("invalid_value")
				}
			}
		}
	}
	return nil
}

// show returns a response, or its events.
func (q *request) show(id string) error {
	query := q.HTTP.URL.Query()
	if err := checkInclude(query); err != nil {
		return err
	}
	o, err := q.found(store.ObjectResponse, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectResponse)
	case err != nil:
		return err
	case !hasContent(&o):
		return q.relay(&o)
	}
	stream, after, err := parseStream(query)
	if err != nil {
		return err
	}
	if stream {
		return q.rejoin(&o, after)
	}
	c, err := q.keeper.read(q.HTTP.Context(), &o)
	if err != nil {
		return err
	}
	return q.sendResponse(&o, &c)
}

// parseStream reads whether the client wants a stream, and the sequence number of the last
// event that it has; -1 is none.
func parseStream(query url.Values) (stream bool, after int64, err error) {
	switch v := query.Get("stream"); v {
	case "", "false":
	case "true":
		stream = true
	default:
		return false, 0, apierr.New(apierr.Invalid, "stream must be true or false, not %.40q", v).WithParam("stream")
	}
	after = -1
	if text := query.Get("starting_after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return false, 0, apierr.New(apierr.Invalid, "starting_after must be the sequence number of an event, not %.40q", text).
				WithParam("starting_after")
		}
		if !stream {
			return false, 0, apierr.New(apierr.Invalid, "starting_after needs stream=true").WithParam("starting_after")
		}
	}
	return stream, after, nil
}

// remove deletes a response, at its provider too. The responses that continue it lose what
// is before them.
func (q *request) remove(id string) error {
	o, err := q.found(store.ObjectResponse, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectResponse)
	case err != nil:
		return err
	case !hasContent(&o):
		return q.relayDeletion(&o)
	}
	if o.State == stateQueued || o.State == stateInProgress {
		if err := q.stopWork(&o); err != nil {
			return err
		}
	}
	if err := q.delete(&o); err != nil {
		if apierr.IsNotFound(err) {
			return kept.NotFound(store.ObjectResponse, "id")
		}
		return err
	}
	return q.JSON(http.StatusOK, deletion{o.ID, "response", true})
}

// cancel ends a response in the background. One that has ended stays as it is.
func (q *request) cancel(id string) error {
	o, err := q.found(store.ObjectResponse, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectResponse)
	case err != nil:
		return err
	case !hasContent(&o):
		return q.relay(&o)
	}
	return q.cancelWork(&o)
}

// inputItems lists the items of the input of a response, with those of the responses that
// it continues.
func (q *request) inputItems(id string) error {
	query := q.HTTP.URL.Query()
	if err := checkInclude(query); err != nil {
		return err
	}
	p, err := kept.ParsePage(query, 100, 20)
	if err != nil {
		return err
	}
	o, err := q.found(store.ObjectResponse, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectResponse)
	case err != nil:
		return err
	case !hasContent(&o):
		return q.relay(&o)
	}
	c, err := q.keeper.read(q.HTTP.Context(), &o)
	if err != nil {
		return err
	}
	items := c.Input
	if o.Parent != "" {
		parent := o
		parent.ID = o.Parent
		before, err := q.keeper.chain(q.HTTP.Context(), &parent, q.From.MaxJSON)
		if err == nil {
			items = append(before, items...)
		} else if apierr.From(err).Code != "previous_response_not_found" { // then only its own are left
			return err
		}
	}
	return q.itemPage(items, p)
}

// itemPage writes a page of items, which are in the order of the conversation.
func (q *request) itemPage(items []json.RawMessage, p kept.Page) error {
	ids := make([]string, len(items))
	for i, item := range items {
		named, id, err := q.keeper.identify(item, false)
		if err != nil {
			return err
		}
		items[i], ids[i] = named, id
	}
	if !p.Ascending {
		items, ids = slices.Clone(items), slices.Clone(ids)
		slices.Reverse(items)
		slices.Reverse(ids)
	}
	from := 0
	if p.After != "" {
		if from = slices.Index(ids, p.After) + 1; from == 0 {
			return kept.NotFound("item", "after")
		}
	}
	to := min(len(items), from+p.Limit)
	return q.JSON(http.StatusOK, newItemList(items[from:to], ids[from:to], to < len(items)))
}

// newItemList returns a page of items with these ids.
func newItemList(items []json.RawMessage, ids []string, more bool) kept.List[json.RawMessage] {
	l := kept.List[json.RawMessage]{Object: "list", Data: items, HasMore: more}
	if l.Data == nil {
		l.Data = []json.RawMessage{}
	}
	if len(ids) > 0 {
		l.FirstID, l.LastID = &ids[0], &ids[len(ids)-1]
	}
	return l
}
