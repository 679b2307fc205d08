package exports

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/format/parquet"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
)

// field is a column of an export with the function that reads it from an entry. A value
// is nil for null, or a string, bool, int64, float64, time.Time, cents or object.
type field struct {
	parquet.Column
	of func(e *reqlog.Entry) any
}

// cents is an amount in nano-dollars that is written in cents.
type cents catalog.NanoDollars

// object is JSON text.
type object string

// costScale is the number of decimals of an amount in cents.
const costScale = 7

// fields are all fields of exports, in their order.
var fields = []field{
	{parquet.Column{Name: "id", Type: parquet.Text}, func(e *reqlog.Entry) any { return e.ID.String() }},
	{parquet.Column{Name: "trace_id", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.TraceID) }},
	{parquet.Column{Name: "created_at", Type: parquet.Moment}, func(e *reqlog.Entry) any { return e.Time }},
	{parquet.Column{Name: "request", Type: parquet.JSON, Null: true},
		func(e *reqlog.Entry) any { return body(e, func(b *reqlog.Bodies) *reqlog.Body { return &b.Request }) }},
	{parquet.Column{Name: "response", Type: parquet.JSON, Null: true},
		func(e *reqlog.Entry) any { return body(e, func(b *reqlog.Bodies) *reqlog.Body { return &b.Response }) }},
	{parquet.Column{Name: "is_success", Type: parquet.Bool}, func(e *reqlog.Entry) any { return e.Outcome() == reqlog.OutcomeSuccess }},
	{parquet.Column{Name: "ai_org", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.Provider) }},
	{parquet.Column{Name: "ai_model", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.Model) }},
	{parquet.Column{Name: "req_units", Type: parquet.Int, Null: true},
		func(e *reqlog.Entry) any { return when(e.Usage.Known, e.Usage.Prompt()) }},
	{parquet.Column{Name: "res_units", Type: parquet.Int, Null: true},
		func(e *reqlog.Entry) any { return when(e.Usage.Known, e.Usage.Completion()) }},
	{parquet.Column{Name: "total_units", Type: parquet.Int, Null: true},
		func(e *reqlog.Entry) any { return when(e.Usage.Known, e.Usage.Total()) }},
	{parquet.Column{Name: "request_url", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.Path) }},
	{parquet.Column{Name: "cost", Type: parquet.Decimal, Null: true, Scale: costScale},
		func(e *reqlog.Entry) any { return when(e.Priced, cents(e.Cost)) }},
	{parquet.Column{Name: "cost_currency", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return when(e.Priced, "USD") }},
	{parquet.Column{Name: "response_time", Type: parquet.Float}, func(e *reqlog.Entry) any { return float64(e.Total.Microseconds()) / 1000 }},
	{parquet.Column{Name: "response_status_code", Type: parquet.Int}, func(e *reqlog.Entry) any { return int64(e.Status) }},
	{parquet.Column{Name: "mode", Type: parquet.Text, Null: true},
		func(e *reqlog.Entry) any { return when(!strings.Contains(e.OptionIndex, "targets"), "single") }},
	{parquet.Column{Name: "config", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.Config) }},
	{parquet.Column{Name: "prompt_slug", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.Prompt.Slug) }},
	{parquet.Column{Name: "metadata", Type: parquet.JSON}, func(e *reqlog.Entry) any { return metadata(e.Metadata) }},
	{parquet.Column{Name: "outcome", Type: parquet.Text}, func(e *reqlog.Entry) any { return e.Outcome().String() }},
	{parquet.Column{Name: "provider_slug", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.Slug) }},
	{parquet.Column{Name: "upstream_model", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.UpstreamModel) }},
	{parquet.Column{Name: "response_model", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.ResponseModel) }},
	{parquet.Column{Name: "target", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.OptionIndex) }},
	{parquet.Column{Name: "target_name", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.TargetName) }},
	{parquet.Column{Name: "error_code", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.ErrorCode) }},
	{parquet.Column{Name: "cost_nano_usd", Type: parquet.Int, Null: true}, func(e *reqlog.Entry) any { return when(e.Priced, int64(e.Cost)) }},
	{parquet.Column{Name: "first_token_ms", Type: parquet.Float, Null: true},
		func(e *reqlog.Entry) any { return when(e.FirstToken > 0, float64(e.FirstToken.Microseconds())/1000) }},
	{parquet.Column{Name: "config_version", Type: parquet.Int, Null: true},
		func(e *reqlog.Entry) any { return when(e.ConfigVersion > 0, e.ConfigVersion) }},
	{parquet.Column{Name: "prompt_version", Type: parquet.Int, Null: true},
		func(e *reqlog.Entry) any { return when(e.Prompt.Version > 0, e.Prompt.Version) }},
	{parquet.Column{Name: "api_key_id", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.KeyID) }},
	{parquet.Column{Name: "operation", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(string(e.Operation)) }},
	{parquet.Column{Name: "workspace_id", Type: parquet.Text, Null: true}, func(e *reqlog.Entry) any { return text(e.Workspace) }},
}

// orderedFields returns names in the order of fields, without duplicates.
func orderedFields(names []string) []string {
	var out []string
	for i := range fields {
		if slices.Contains(names, fields[i].Name) {
			out = append(out, fields[i].Name)
		}
	}
	return out
}

// columns returns the fields with these names, in the order of fields.
func columns(names []string) []field {
	return slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return !slices.Contains(names, f.Name) })
}

// withBodies reports whether one of the fields is read from bodies.
func withBodies(names []string) bool {
	return slices.Contains(names, "request") || slices.Contains(names, "response")
}

func when[T any](known bool, v T) any {
	if !known {
		return nil
	}
	return v
}

// text returns s as valid UTF-8, nil if it is empty.
func text(s string) any { return when(s != "", strings.ToValidUTF8(s, "\ufffd")) }

func metadata(m map[string]string) object {
	if len(m) == 0 {
		return "{}"
	}
	return asJSON(m)
}

// body returns the request or response body of an entry as the log shows it.
func body(e *reqlog.Entry, of func(*reqlog.Bodies) *reqlog.Body) any {
	if e.Bodies == nil {
		return nil
	}
	text := object(of(e.Bodies).AppendJSON(nil))
	return when(text != "null", text)
}

// asJSON encodes v, which consists of strings and numbers only and cannot fail.
func asJSON(v any) object {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null"
	}
	return object(strings.TrimSuffix(out.String(), "\n"))
}

// spell returns a value that is not a string as JSON, which CSV cells use too.
func spell(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case cents:
		return v.String()
	case object:
		return string(v)
	}
	return "null"
}

// moment formats a time.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// String returns the amount in cents, exact to the nano-dollar.
func (c cents) String() string {
	const cent = 10_000_000
	integer := strconv.FormatInt(int64(c)/cent, 10)
	rest := int64(c) % cent
	if rest == 0 {
		return integer
	}
	digits := strconv.FormatInt(cent+rest, 10)[1:]
	return integer + "." + strings.TrimRight(digits, "0")
}
