package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/base/apierr"
)

// failure is an error written in both formats that control-plane clients understand.
type failure struct {
	err  *apierr.Error
	code string // AB01 …
}

// codes maps kinds of errors to codes. An error that already has an AB code keeps it.
var codes = map[apierr.Kind]string{
	apierr.Invalid:         "AB01",
	apierr.TooLarge:        "AB01",
	apierr.Forbidden:       "AB03",
	apierr.Unauthenticated: "AB05",
	apierr.RateLimited:     "AB06",
	apierr.Conflict:        "AB07",
	apierr.StateChanged:    "AB07",
	apierr.NotFound:        "AB08",
}

// failure converts err. An error that is not an *apierr.Error is logged and becomes an
// internal error, unless it is a known condition of the database.
func (a *API) failure(err error) *failure {
	e := apierr.From(a.DB.ClientError(err))
	if e.Kind == apierr.Internal {
		a.Logger.Error("control plane request failed", "err", err.Error())
	}
	return failed(e)
}

func failed(e *apierr.Error) *failure {
	code := codes[e.Kind]
	if strings.HasPrefix(e.Code, "AB") {
		code = e.Code
	}
	if code == "" {
		code = "AB04"
	}
	return &failure{e, code}
}

// GetStatus implements huma.StatusError.
func (f *failure) GetStatus() int { return f.err.Status() }

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// GetHeaders implements huma.HeadersError.
func (f *failure) GetHeaders() http.Header {
	h := make(http.Header)
	if wait := f.err.RetryAfter; wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	return h
}

// Unwrap returns the underlying error.
func (f *failure) Unwrap() error { return f.err }

// generic are the codes that a more specific one replaces in error.code.
var generic = []string{"AB03", "AB04", "AB05", "AB07"}

// MarshalJSON writes the error in both formats at once.
func (f *failure) MarshalJSON() ([]byte, error) {
	message := f.err.Message
	if !strings.HasPrefix(message, f.code) {
		message = f.code + ": " + message
	}
	var param *string
	if f.err.Param != "" {
		param = &f.err.Param
	}
	code := f.code
	if slices.Contains(generic, code) && f.err.Code != "" {
		code = f.err.Code
	}
	return marshalPlain(map[string]any{
		"success": false,
		"data":    map[string]any{"message": message, "errorCode": f.code},
		"error":   map[string]any{"message": message, "type": f.err.Type(), "param": param, "code": code},
		"status":  "failure",
		"message": message,
	})
}

// marshalPlain encodes v with < and > as they are, because people read errors.
func marshalPlain(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// ForbidSniffing makes browsers take a response of the gateway for what its content type
// says. Responses of providers pass as they are.
func ForbidSniffing(w http.ResponseWriter) { w.Header().Set("X-Content-Type-Options", "nosniff") }

func (f *failure) write(w http.ResponseWriter) {
	body, err := f.MarshalJSON()
	if err != nil {
		body = f.err.Body()
	}
	maps.Copy(w.Header(), f.GetHeaders())
	w.Header().Set("Content-Type", "application/json")
	if s := f.err.RetryAfter; s > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((s+time.Second-1)/time.Second)))
	}
	w.WriteHeader(f.GetStatus())
	w.Write(body)
}

// invalid converts huma's error for a request that it cannot decode.
func invalid(status int, message string, errs []error) *failure {
	var words []string
	param := ""
	for _, err := range errs {
		d, ok := errors.AsType[*huma.ErrorDetail](err)
		if !ok {
			words = append(words, err.Error())
			continue
		}
		field, says := detail(d)
		if param == "" {
			param = field
		}
		words = append(words, field+": "+says)
	}
	if len(words) > 0 {
		message = strings.Join(words, "; ")
	}
	kind := apierr.Invalid
	if status >= 500 {
		kind = apierr.Internal
	}
	return failed(apierr.New(kind, "%s", message).WithParam(param))
}

// hint is a value that a field does not accept, and others do.
type hint struct{ field, value string }

// hints say where such a value is accepted.
var hints = map[hint]string{
	{"unit", "concurrent"}: "; to limit requests in progress, set the unit concurrent in rate_limits of a key, workspace, provider or integration",
}

// detail returns the field and the text of a huma error. For a missing field it returns
// that field instead of the object that lacks it.
func detail(d *huma.ErrorDetail) (field, says string) {
	field = d.Location
	for _, part := range [...]string{"body.", "query.", "path."} {
		field = strings.TrimPrefix(field, part)
	}
	name, ok := strings.CutPrefix(d.Message, "expected required property ")
	if !ok {
		return field, d.Message + hints[hint{field, fmt.Sprint(d.Value)}]
	}
	name = strings.TrimSuffix(name, " to be present")
	if field == "body" {
		return name, "is required"
	}
	return field + "." + name, "is required"
}

// Missing returns the error for an object that a request refers to and that the caller
// cannot find.
func Missing(field, what, ref string) error {
	return apierr.New(apierr.NotFound, "%s %.60q not found", what, ref).WithParam(field).WithCode("AB02")
}

// NotFound returns the error for the object of the request's path, which is named by
// the path parameter param.
func NotFound(param, what, ref string) error {
	return apierr.New(apierr.NotFound, "%s %.60q not found", what, ref).WithParam(param)
}

// Invalid returns the error for an invalid field of a request.
func Invalid(field, format string, args ...any) error {
	return apierr.New(apierr.Invalid, "%s "+format, append([]any{field}, args...)...).WithParam(field)
}
