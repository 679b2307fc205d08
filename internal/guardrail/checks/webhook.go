package checks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/guardrail"
)

func webhookChecks(s Services) []guardrail.Definition {
	const wait = 3 * time.Second
	headers := param("headers", guardrail.StringMap, "",
		"Headers of the request, also as JSON text. Saved guardrails cannot contain credentials in them: store the credentials and set `storedCredentials`.")
	stored := param("storedCredentials", guardrail.Boolean, "false",
		"Whether the stored credential `authorization` is sent as the header Authorization. The address must begin with the `url` that it was stored with.")
	return []guardrail.Definition{
		{
			ID: "default.webhook", On: both, All: true, Transforms: true, Timeout: wait, Compile: s.compileWebhook,
			Summary:     "The webhook returns the verdict `true`. It may return a changed body.",
			Params:      []guardrail.Param{required("webhookURL", guardrail.String, "Address, http or https."), headers, stored, forwardHeaders},
			Credentials: webhook.needs, Partner: webhook.webhookDescription(),
		},
		{
			ID: "default.log", On: both, All: true, Unread: true, Timeout: wait, Compile: s.compileLog,
			Summary:     "Always passes. The request and the response are sent to the address.",
			Params:      []guardrail.Param{required("logURL", guardrail.String, "Address, http or https."), headers, stored, forwardHeaders},
			Credentials: webhookLog.needs, Partner: webhookLog.webhookDescription(),
		},
	}
}

// webhook and webhookLog are the owners of the credentials of webhooks, which are stored like
// those of partners: url is the address that authorization may be sent to.
var (
	webhook    = &partner{id: "default.webhook", url: "{url}", needs: []string{"authorization", "url"}}
	webhookLog = &partner{id: "default.log", url: "{url}", needs: []string{"authorization", "url"}}
)

// webhookDescription returns the description with the path of the address: a credential for a webhook
// is not for others of its host.
func (row *partner) webhookDescription() *guardrail.Partner {
	d := row.description()
	d.Destination = row.webhookDestination
	return d
}

func (row *partner) webhookDestination(own map[string]secret.String) (to *url.URL, ours bool, err error) {
	if _, _, err := row.destination(own); err != nil {
		return nil, false, err
	}
	to, err = parseURL(own["url"].Reveal())
	return to, false, err
}

// webhookTarget is where a webhook is called, and with which headers.
type webhookTarget struct {
	of       *partner
	p        *guardrail.Params
	address  *url.URL
	headers  map[string]string
	forward  []string
	withAuth bool
}

// header returns the headers of a request, with the credential if the check has one. It
// returns an error if the credential must not be sent to the address.
func (w *webhookTarget) header(s Services, in *guardrail.Input) (http.Header, error) {
	h := headerFor(in, w.forward, w.headers)
	if !w.withAuth {
		return h, nil
	}
	own, err := s.credentials(in, w.p, w.of)
	if err != nil {
		return nil, err
	}
	to, _, err := w.of.webhookDestination(own)
	if err != nil || !isBelow(w.address, to) {
		return nil, errors.New("the stored credentials of the webhook are for another address; store them with its url")
	}
	value := own["authorization"].Reveal()
	if !validHeader("authorization", value) {
		return nil, errors.New("a credential has characters that a header cannot have")
	}
	h.Set("Authorization", value)
	return h, nil
}

// isBelow reports whether an address is base or below it.
func isBelow(address, base *url.URL) bool {
	if address.Scheme != base.Scheme || !strings.EqualFold(address.Host, base.Host) {
		return false
	}
	root, at := strings.TrimSuffix(base.EscapedPath(), "/"), address.EscapedPath()
	if rest, ok := strings.CutPrefix(at, root); !ok || rest != "" && rest[0] != '/' {
		return false
	}
	// Servers may take these for a way out of the path.
	return root == "" || !strings.ContainsAny(at, "%\\") && !strings.Contains(at, "/.") && !strings.Contains(at, "//")
}

// webhookBody is the body that webhooks and modules receive.
type webhookBody struct {
	Request     webhookMessage    `json:"request"`
	Response    webhookMessage    `json:"response"`
	Provider    string            `json:"provider"`
	RequestType string            `json:"requestType"`
	Metadata    map[string]string `json:"metadata"`
	EventType   string            `json:"eventType"`
}

type webhookMessage struct {
	JSON        json.RawMessage `json:"json"`
	Text        string          `json:"text"`
	Status      *int            `json:"statusCode,omitempty"`
	Streaming   *bool           `json:"isStreamingRequest,omitempty"`
	Transformed bool            `json:"isTransformed"`
}

// describe returns the body that webhooks and modules receive. It contains no
// headers.
func describe(in *guardrail.Input) ([]byte, error) {
	r := in.Request
	b := webhookBody{Provider: r.Provider, RequestType: r.Operation, Metadata: r.Metadata, EventType: in.Event.String()}
	if b.Metadata == nil {
		b.Metadata = map[string]string{}
	}
	b.Request.Streaming = &r.Stream
	var last strings.Builder
	for _, p := range in.Parts {
		if !p.Earlier && p.Text != "" {
			if last.Len() > 0 {
				last.WriteByte('\n')
			}
			last.WriteString(p.Text)
		}
	}
	var err error
	if in.Event == after {
		b.Response.Text, b.Response.Status = last.String(), &in.Status
		if in.Document != nil {
			if b.Response.JSON, err = in.JSON(); err != nil {
				return nil, err
			}
		}
		if r.Body != nil {
			b.Request.JSON, err = r.Body.JSON(nil, nil)
		}
	} else {
		b.Request.Text = last.String()
		if in.Document != nil {
			b.Request.JSON, err = in.JSON()
		}
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(b)
}

// webhookResponse is the response of webhooks and modules.
type webhookResponse struct {
	Verdict     *bool                      `json:"verdict"`
	Data        json.RawMessage            `json:"data"`
	Transformed map[string]json.RawMessage `json:"transformedData"`
}

// maxData is the maximum size of the data that a webhook adds to hook_results.
const maxData = 64 << 10

// readWebhookResponse converts the response of a webhook or a module.
func readWebhookResponse(b []byte, in *guardrail.Input, of string) (guardrail.Verdict, error) {
	var response webhookResponse
	if err := decode(b, &response, of); err != nil {
		return guardrail.Verdict{}, err
	}
	if response.Verdict == nil {
		return guardrail.Verdict{}, errors.New("the response of " + of + ` has no boolean "verdict"`)
	}
	v := guardrail.Verdict{Passed: *response.Verdict, Data: &guardrail.Data{Verdict: *response.Verdict}}
	if len(response.Data) > maxData {
		return guardrail.Verdict{}, guardrail.NewIncomplete("the data of %s is larger than %d bytes", of, maxData)
	}
	if len(response.Data) > 0 {
		v.Data.More = map[string]any{"data": response.Data}
	}
	side := "request"
	if in.Event == after {
		side = "response"
	}
	if raw := response.Transformed[side]; len(raw) > 0 && string(raw) != "null" {
		m, ok := membersOf(raw)
		if !ok {
			return guardrail.Verdict{}, errors.New("transformedData of " + of + " must have objects")
		}
		if body := m["json"]; len(body) > 0 && string(body) != "null" {
			if _, ok := membersOf(body); !ok {
				return guardrail.Verdict{}, errors.New("the body of " + of + " must be a JSON object without duplicate keys")
			}
			v.Body = body
		}
	}
	return v, nil
}

// compileTarget checks the address and the headers of webhook and log.
func compileTarget(p *guardrail.Params, name string, of *partner) (*webhookTarget, error) {
	text, err := urlParam(p, name)
	if err != nil {
		return nil, err
	}
	w := &webhookTarget{of: of, p: p, headers: p.Map("headers"), forward: p.Strings("forwardHeaders"), withAuth: p.Bool("storedCredentials") ||
		p.Credentials() != nil}
	if w.address, err = parseURL(text); err != nil {
		return nil, err
	}
	for key, value := range w.headers {
		if !validHeader(key, value) {
			return nil, &guardrail.ParamError{Path: "headers",
				Message: "must be an object of valid headers; hop-by-hop headers and Host cannot be set"}
		}
		if w.withAuth && strings.EqualFold(key, "authorization") {
			return nil, &guardrail.ParamError{Path: "headers", Message: "must not have Authorization next to credentials"}
		}
	}
	return w, checkForward(p)
}

// validHeader reports whether a header may be set on a request of a check.
func validHeader(name, value string) bool {
	const tokens = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
	if name == "" || strings.Trim(strings.ToLower(name), tokens) != "" {
		return false
	}
	switch strings.ToLower(name) {
	case "host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "keep-alive", "proxy-connection", "expect",
		"accept-encoding",
		"metadata", "metadata-flavor", "x-aws-ec2-metadata-token", "x-aws-ec2-metadata-token-ttl-seconds", "x-google-metadata-request":
		return false
	}
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func (s Services) compileWebhook(p *guardrail.Params) (guardrail.Compiled, error) {
	target, err := compileTarget(p, "webhookURL", webhook)
	if err != nil {
		return guardrail.Compiled{}, err
	}
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		body, err := describe(in)
		if err != nil {
			return guardrail.Verdict{}, err
		}
		header, err := target.header(s, in)
		if err != nil {
			return guardrail.Verdict{}, err
		}
		response, err := s.send(ctx, in,
			outgoing{method: http.MethodPost, url: target.address.String(), header: header, body: body, limit: maxBody, chosen: true, decides: true})
		if err != nil {
			return guardrail.Verdict{}, err
		}
		return readWebhookResponse(response, in, "the webhook")
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}, Transforms: true, Remote: true, Bodies: true}, nil
}

func (s Services) compileLog(p *guardrail.Params) (guardrail.Compiled, error) {
	target, err := compileTarget(p, "logURL", webhookLog)
	if err != nil {
		return guardrail.Compiled{}, err
	}
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		body, err := describe(in)
		if err != nil {
			return guardrail.Verdict{}, err
		}
		header, err := target.header(s, in)
		if err != nil {
			return guardrail.Verdict{}, err
		}
		if _, err := s.send(ctx, in,
			outgoing{method: http.MethodPost, url: target.address.String(), header: header, body: body, chosen: true}); err != nil {
			return guardrail.Verdict{}, err
		}
		return verdict(true, false, "", "the request was logged", nil), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}, Remote: true, Bodies: true}, nil
}
