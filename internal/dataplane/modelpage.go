package dataplane

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// modelPage is the response of GET /v1/models for clients of the messages
// dialect.
// https://docs.anthropic.com/en/api/models-list
type modelPage struct {
	Data    []modelEntry `json:"data"`
	FirstID *string      `json:"first_id"`
	LastID  *string      `json:"last_id"`
	HasMore bool         `json:"has_more"`
	Failed  []string     `json:"failed_providers,omitempty"`
}

// modelEntry is one model of a page. The display name is the id, by which users
// choose models here.
type modelEntry struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

// The default page size and the largest.
const (
	defaultPageSize = 20
	maxPageSize     = 1000
)

// page returns the part of the list that a query selects with limit, after_id
// and before_id.
func (l modelList) page(query string) (*modelPage, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "the query cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if n := len(q[name]); n > 1 {
			return nil, apierr.New(apierr.Invalid, "%.40q must be set once, not %d times", name, n).WithParam(reqlog.Cut(name, 40))
		}
	}
	limit := defaultPageSize
	if s := q.Get("limit"); s != "" {
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > maxPageSize {
			return nil, apierr.New(apierr.Invalid, "limit must be an integer from 1 to %d, not %.40q", maxPageSize, s).WithParam("limit")
		}
	}
	from, to := 0, len(l.Data)
	if id := q.Get("after_id"); id != "" {
		from = l.index(id) + 1
	}
	out := &modelPage{Data: []modelEntry{}, HasMore: to-from > limit, Failed: l.Failed}
	if id := q.Get("before_id"); id != "" {
		to = max(l.index(id), 0)
		from = max(to-limit, 0)
		out.HasMore = from > 0
	}
	for _, m := range l.Data[from:min(from+limit, to)] {
		out.Data = append(out.Data, m.entry())
	}
	if n := len(out.Data); n > 0 {
		out.FirstID, out.LastID = &out.Data[0].ID, &out.Data[n-1].ID
	}
	return out, nil
}

func (m model) entry() modelEntry {
	return modelEntry{Type: "model", ID: m.ID, DisplayName: m.ID, CreatedAt: time.Unix(m.Created, 0).UTC().Format(time.RFC3339)}
}

// geminiPage is the response of GET /v1beta/models.
// https://ai.google.dev/api/models#method:-models.list
type geminiPage struct {
	Models []geminiEntry `json:"models"`
	Next   string        `json:"nextPageToken,omitempty"`
	Failed []string      `json:"failedProviders,omitempty"`
}

// geminiEntry is one model of a geminiPage. It names no capabilities, which lists of providers rarely have.
type geminiEntry struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
}

func (m model) geminiEntry() geminiEntry {
	return geminiEntry{Name: "models/" + m.ID, DisplayName: m.ID}
}

// defaultGeminiPage is the default page size in the gemini dialect.
const defaultGeminiPage = 50

// geminiPage returns the part of the list that a query selects with pageSize
// and pageToken, the id of the last model before it.
func (l modelList) geminiPage(query string) (*geminiPage, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "the query cannot be read: %v", err)
	}
	size := defaultGeminiPage
	if s := q.Get("pageSize"); s != "" && s != "0" {
		if size, err = strconv.Atoi(s); err != nil || size < 0 {
			return nil, apierr.New(apierr.Invalid, "pageSize must be an integer from 0, not %.40q", s).WithParam("pageSize")
		}
	}
	size = min(size, maxPageSize)
	from := 0
	if token := q.Get("pageToken"); token != "" {
		if from = l.index(token) + 1; from == 0 {
			return nil, apierr.New(apierr.Invalid, "pageToken %.100q does not belong to this list; start again without it",
				token).WithParam("pageToken")
		}
	}
	out := &geminiPage{Models: []geminiEntry{}, Failed: l.Failed}
	to := min(from+size, len(l.Data))
	for _, m := range l.Data[from:to] {
		out.Models = append(out.Models, m.geminiEntry())
	}
	if to < len(l.Data) && to > 0 {
		out.Next = l.Data[to-1].ID
	}
	return out, nil
}

// index returns the index of a model, -1 if it is not in the list.
func (l modelList) index(id string) int {
	return slices.IndexFunc(l.Data, func(m model) bool { return m.ID == id })
}
