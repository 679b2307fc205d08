package batches

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/copies"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// input is the body of a request that creates a batch.
// https://platform.openai.com/docs/api-reference/batch/create
type input struct {
	InputFileID        string            `json:"input_file_id"`
	Endpoint           string            `json:"endpoint"`
	CompletionWindow   string            `json:"completion_window"`
	Metadata           map[string]string `json:"metadata"`
	OutputExpiresAfter *struct {
		Anchor  string `json:"anchor"`
		Seconds int64  `json:"seconds"`
	} `json:"output_expires_after"`

	// What follows is the gateway's own.
	GatewayOptions  map[string]string `json:"gateway_options"` // headers of the requests
	ProviderOptions map[string]any    `json:"provider_options"`
	Model           string            `json:"model"`
	JobName         string            `json:"job_name"`
	RoleARN         string            `json:"role_arn"`
	Output          string            `json:"output_data_config"` // folder of the results
}

// fields are the fields of an input.
var fields = []string{
	"input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after", "gateway_options", "provider_options",
	"model", "job_name", "role_arn", "output_data_config",
}

// create creates a batch: at the provider that has its input file or that it names, or one
// that the gateway runs.
func create(q *kept.Request) error {
	body, err := q.Body()
	if err != nil {
		return err
	}
	in, err := parseInput(body)
	if err != nil {
		return err
	}
	if in.CompletionWindow == windowNow && q.From.Provider != "" {
		return apierr.New(apierr.Invalid, "completion_window immediate is for batches that the gateway runs; leave out x-gateway-provider and name providers in the lines, as @slug/model, or in gateway_options").
			WithParam("completion_window")
	}
	file, err := q.Find(store.ObjectFile, in.InputFileID)
	elsewhere := err == nil && in.hasOtherRunner(q, &file)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.PassBody(store.ObjectBatch, body)
	case err != nil && apierr.IsNotFound(err):
		return kept.NotFound(store.ObjectFile, "input_file_id")
	case err != nil:
		return err
	case file.ProviderID != "" && !elsewhere:
		return createThere(q, in, body, &file)
	case file.Label != "batch":
		return apierr.New(apierr.Invalid, "the file %s has the purpose %s; a batch reads a file with the purpose batch", in.InputFileID,
			file.Label).
			WithParam("input_file_id")
	case file.ProviderID != "":
		w := copies.Copy{Deps: q.Deps, Identity: q.From.Identity, TraceID: q.From.TraceID, File: &file, Param: "input_file_id",
			Name: in.InputFileID, Purpose: "batch"}
		here, err := w.Here(q.HTTP.Context())
		if err != nil {
			return err
		}
		return createHere(q, in, here)
	}
	return createHere(q, in, &file)
}

// hasOtherRunner reports whether another provider than that of the file, or the gateway, runs
// the batch.
func (in *input) hasOtherRunner(q *kept.Request, file *store.Object) bool {
	if in.CompletionWindow == windowNow {
		return true
	}
	name := in.provider(q)
	return name != "" && name != file.Provider
}

// createHere creates a batch of a file that the gateway has.
func createHere(q *kept.Request, in *input, file *store.Object) error {
	provider := in.provider(q)
	if provider == "" {
		provider = file.Provider
	}
	if in.CompletionWindow == windowDay && provider != "" {
		target, _, err := q.Target(provider)
		if err != nil {
			return err
		}
		if vendor, ok := vendorbatch.For(target.ID); ok {
			return createAtVendor(q, in, file, vendor, provider)
		}
	}
	return createManaged(q, in, file, provider)
}

// checkOfProvider returns an error for fields that only batches at providers have.
func (in *input) checkOfProvider() error {
	for name, set := range map[string]bool{
		"model": in.Model != "", "job_name": in.JobName != "", "role_arn": in.RoleARN != "",
		"output_data_config": in.Output != "", "provider_options": len(in.ProviderOptions) > 0,
	} {
		if set {
			return apierr.New(apierr.Invalid, "%s is for batches at providers, and the gateway runs this one; leave it out", name).WithParam(name)
		}
	}
	return nil
}

// checkOfGateway returns an error for what only batches of the gateway have.
func (in *input) checkOfGateway(q *kept.Request) error {
	if q.From.Config != "" {
		return apierr.New(apierr.Invalid, "a config is for batches that the gateway runs, and a provider runs this one; leave out x-gateway-config").
			WithParam("x-gateway-config")
	}
	for name := range in.GatewayOptions {
		if c := http.CanonicalHeaderKey(name); c != api.HeaderProvider && c != api.HeaderVirtualKey {
			return apierr.New(apierr.Invalid, "gateway_options: %.60q is for batches that the gateway runs, and a provider runs this one; leave it out", name).
				WithParam("gateway_options")
		}
	}
	return nil
}

// createManaged creates a batch that the gateway runs. Its job validates the lines.
func createManaged(q *kept.Request, in *input, file *store.Object, provider string) error {
	if err := in.checkOfProvider(); err != nil {
		return err
	}
	if q.From.Identity.Hash == ([32]byte{}) || q.From.Identity.KeyID == "" {
		return apierr.New(apierr.Forbidden, "a batch goes on after its request, so it needs a gateway key; a token or a session can't create one").WithCode("key_required")
	}
	if strings.HasPrefix(strings.TrimSpace(q.From.Config), "{") {
		return apierr.New(apierr.Invalid, "a batch goes on after its request, so x-gateway-config must be the id of a saved config").WithParam("x-gateway-config")
	}
	o := q.NewObject(store.ObjectBatch, batchPrefix)
	o.Label, o.State = in.Endpoint, string(vendorbatch.Validating)
	d := in.details(q, file)
	if provider != "" && d.Headers[api.HeaderProvider] == "" && d.Headers[api.HeaderConfig] == "" {
		d.Headers[api.HeaderProvider] = provider
	}
	d.Batch.ExpiresAt = o.CreatedAt.Add(window).Unix()
	if err := reserve(q, &o, &d, file); err != nil {
		return err
	}
	if err := addNew(q, &o, &d, jobOf(q.Deps, &o, store.JobBatch, o.CreatedAt)); err != nil {
		return err
	}
	q.Deps.Queued()
	b, err := show(&o)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, b)
}

// jobOf returns the job of a kind for a batch.
func jobOf(d *kept.Deps, o *store.Object, kind string, at time.Time) store.Job {
	return store.Job{
		ID: d.NewID(), Kind: kind, Subject: o.ID, Organisation: o.Organisation, Workspace: o.Workspace, NextAt: at, CreatedAt: d.Now(),
	}
}

// provider returns "@" and the slug of the provider that the request or its options name.
func (in *input) provider(q *kept.Request) string {
	if q.From.Provider != "" {
		return q.From.Provider
	}
	for name, value := range in.GatewayOptions {
		if c := http.CanonicalHeaderKey(name); c == api.HeaderProvider && strings.HasPrefix(value, "@") {
			return value
		} else if c == api.HeaderVirtualKey {
			return "@" + strings.TrimPrefix(value, "@")
		}
	}
	return ""
}

// details returns what the record of a new batch keeps.
func (in *input) details(q *kept.Request, file *store.Object) details {
	d := details{
		Batch: vendorbatch.Batch{Endpoint: in.Endpoint, InputFileID: in.InputFileID, CompletionWindow: in.CompletionWindow,
			Metadata: in.Metadata},
		Input: file.ID, InputIsTheirs: file.ProviderID != "",
		Key: q.From.Identity.Hash.String(), User: q.From.Identity.UserID, TraceID: q.From.TraceID,
		Headers: make(map[string]string), Options: make(map[string]string),
	}
	for name, value := range in.GatewayOptions {
		d.Headers[http.CanonicalHeaderKey(name)] = value
	}
	if q.From.Config != "" && d.Headers[api.HeaderConfig] == "" {
		d.Headers[api.HeaderConfig] = q.From.Config
	}
	if len(q.From.Metadata) > 0 && d.Headers[api.HeaderMetadata] == "" {
		text, _ := json.Marshal(q.From.Metadata) // strings only
		d.Headers[api.HeaderMetadata] = string(text)
	}
	if in.OutputExpiresAfter != nil {
		d.OutputLife = in.OutputExpiresAfter.Seconds
	}
	for name, v := range in.ProviderOptions {
		d.Options[name] = fmt.Sprint(v)
	}
	own := map[string]string{"model": in.Model, "job_name": in.JobName, "role_arn": in.RoleARN, "output_data_config": in.Output}
	for name, v := range own {
		if v != "" {
			d.Options[name] = v
		}
	}
	return d
}

// parseInput reads and checks a body.
func parseInput(body []byte) (*input, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return nil, apierr.New(apierr.Invalid, "the request body is not a JSON object: %v", err).WithCode("invalid_json")
	}
	in := new(input)
	if err := json.Unmarshal(body, in); err != nil {
		param := "body"
		if t, ok := err.(*json.UnmarshalTypeError); ok && t.Field != "" {
			param, _, _ = strings.Cut(t.Field, ".")
		}
		return nil, apierr.New(apierr.Invalid, "%s has a wrong type", param).WithParam(param)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	for name := range all {
		if !slices.Contains(fields, name) {
			return nil, apierr.New(apierr.Invalid, "the field %.60q is not supported; a batch has %s", name, strings.Join(fields, ", ")).
				WithParam(name).WithCode("unknown_parameter")
		}
	}
	return in, in.check()
}

func (in *input) check() error {
	missing := func(name string) error {
		return apierr.New(apierr.Invalid, "%s is missing", name).WithParam(name).WithCode("missing_required_parameter")
	}
	switch {
	case in.InputFileID == "":
		return missing("input_file_id")
	case in.Endpoint == "":
		return missing("endpoint")
	case in.CompletionWindow == "":
		return missing("completion_window")
	case in.CompletionWindow != windowNow && in.CompletionWindow != windowDay:
		return apierr.New(apierr.Invalid, "completion_window must be immediate or 24h, not %.40q",
			in.CompletionWindow).WithParam("completion_window")
	case !slices.Contains(endpoints, in.Endpoint) && !isPromptPath(in.Endpoint, in.Endpoint):
		return apierr.New(apierr.Invalid, "endpoint must be one of %s, or /v1/prompts/{id}/completions, not %.80q", strings.Join(endpoints,
			", "), in.Endpoint).
			WithParam("endpoint")
	}
	if x := in.OutputExpiresAfter; x != nil && (x.Anchor != "created_at" || x.Seconds < 3600 || x.Seconds > 2592000) {
		return apierr.New(apierr.Invalid, "output_expires_after needs the anchor created_at and seconds from 3600 to 2592000").WithParam("output_expires_after")
	}
	if err := checkMetadata(in.Metadata); err != nil {
		return err
	}
	return in.checkOptions()
}

// checkMetadata checks the limits of metadata.
func checkMetadata(m map[string]string) error {
	const pairs, key, value = 16, 64, 512
	if len(m) > pairs {
		return apierr.New(apierr.Invalid, "metadata has %d pairs; at most %d are allowed", len(m), pairs).WithParam("metadata")
	}
	for k, v := range m {
		if utf8.RuneCountInString(k) > key || utf8.RuneCountInString(v) > value {
			return apierr.New(apierr.Invalid, "metadata: keys have at most %d characters and values at most %d; %.64q has more", key, value, k).WithParam("metadata")
		}
	}
	return nil
}

// optionHeaders are the headers that the requests of a batch may have.
var optionHeaders = []string{
	api.HeaderProvider, api.HeaderVirtualKey, api.HeaderConfig, api.HeaderMetadata, api.HeaderRequestTimeout, api.HeaderAttemptTimeout,
	api.HeaderStrict, api.HeaderDebug, api.HeaderCacheRefresh, api.HeaderCacheNamespace, api.HeaderTraceID,
}

// checkOptions checks the headers of the requests. They are stored, so they must not hold
// credentials.
func (in *input) checkOptions() error {
	for name, value := range in.GatewayOptions {
		c := http.CanonicalHeaderKey(name)
		switch {
		case !slices.Contains(optionHeaders, c):
			return apierr.New(apierr.Invalid, "gateway_options: %.60q is not supported; use %s", name, strings.ToLower(strings.Join(optionHeaders,
				", "))).WithParam("gateway_options")
		case c == api.HeaderConfig && strings.HasPrefix(strings.TrimSpace(value), "{"):
			return apierr.New(apierr.Invalid, "gateway_options: x-gateway-config must be the id of a saved config, since it is stored").WithParam("gateway_options")
		case c == api.HeaderProvider && !strings.HasPrefix(value, "@"):
			return apierr.New(apierr.Invalid, "gateway_options: x-gateway-provider must be a managed provider, as @slug, since credentials are not stored").WithParam("gateway_options")
		case strings.ContainsAny(value, "\r\n\x00"):
			return apierr.New(apierr.Invalid, "gateway_options: the value of %.60q has control characters", name).WithParam("gateway_options")
		}
	}
	return nil
}
