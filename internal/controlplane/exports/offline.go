package exports

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

// Write writes what an export selects to w, at once and without storing the export, and returns
// the number of rows. It is for operators, who may read all of the log: an export without a workspace
// has the entries of all. Fields that the organisation denies are left out. Sum groups entries; it
// proves that objects which are deleted existed.
func (r *Runner) Write(ctx context.Context, w io.Writer, e store.Export,
	sum func(context.Context, logstore.GroupQuery) ([]logstore.Group, error)) (rows int64, err error) {
	var filters Filters
	given := json.NewDecoder(bytes.NewReader(e.Filters))
	given.DisallowUnknownFields()
	if err := given.Decode(&filters); err != nil {
		return 0, route.Invalid("filters", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if types[e.Format] == "" {
		return 0, route.Invalid("format", "must be jsonl, csv or parquet, not %.20q", e.Format)
	}
	for _, name := range e.Requested {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.Name == name }) {
			return 0, route.Invalid("requested_data", "has no field %.60q; docs/exports.md lists them", name)
		}
	}
	names := route.LogNames{DB: r.DB.Queries, Sum: sum, Scope: logstore.Scope{Organisation: e.Organisation, Workspace: e.Workspace}}
	if err := filters.resolve(ctx, names); err != nil {
		return 0, err
	}
	if e.Filters, err = json.Marshal(&filters); err != nil {
		return 0, err
	}
	e.Requested = orderedFields(e.Requested)
	f := &file{Runner: r, export: e}
	err = f.write(ctx, w)
	return f.rows.Load(), err
}
