package settings

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"modelgate/internal/base/secret"
)

// Telemetry configures sending spans and metrics by OTLP. Without an endpoint the
// variables OTEL_EXPORTER_OTLP_* apply, and without those nothing is sent.
type Telemetry struct {
	Endpoint string            `json:"endpoint,omitempty" maxLength:"2048" doc:"Base address of a collector, for example http://collector:4318"`
	Protocol string            `json:"protocol,omitempty" enum:",http,grpc"` // default http
	Headers  map[string]string `json:"headers,omitempty" maxProperties:"32" doc:"${NAME} for an environment variable, or sealed values"`

	Traces  *bool `json:"traces,omitempty"`  // default true
	Metrics *bool `json:"metrics,omitempty"` // default true

	Sample   *float64 `json:"sample,omitempty" minimum:"0" maximum:"1" doc:"Fraction of traces to sample when the client's traceparent does not decide, 0 to 1. Default 1."`
	Interval Duration `json:"interval,omitempty"` // between metrics; default 1m

	Propagate bool `json:"propagate,omitempty" doc:"Send a traceparent header to providers"`

	headers map[string]secret.String
}

// Credentials returns the opened headers.
func (t *Telemetry) Credentials() map[string]secret.String { return t.headers }

var headerForm = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (t *Telemetry) check(o SecretResolver) *fault {
	if err := t.checkEndpoint(); err != nil {
		return at(err, "telemetry.endpoint")
	}
	switch t.Protocol {
	case "", "http", "grpc":
	default:
		return at(errors.New("the protocol is http or grpc"), "telemetry.protocol")
	}
	if t.Endpoint == "" && (t.Protocol != "" || t.Headers != nil) {
		return at(errors.New("protocol and headers go with an endpoint"), "telemetry.endpoint")
	}
	if t.Sample != nil && !(*t.Sample >= 0 && *t.Sample <= 1) {
		return at(errors.New("a part is 0 to 1"), "telemetry.sample")
	}
	if d := time.Duration(t.Interval); d != 0 && (d < time.Second || d > time.Hour) {
		return at(errors.New("metrics are sent every 1s to 1h"), "telemetry.interval")
	}
	return t.open(o)
}

func (t *Telemetry) checkEndpoint() error {
	if t.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New("an endpoint is the address of a collector, as http://collector:4318")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("an endpoint has neither credentials nor a query; send credentials as headers")
	}
	return nil
}

func (t *Telemetry) open(o SecretResolver) *fault {
	if t.Headers != nil {
		t.headers = make(map[string]secret.String, len(t.Headers))
	}
	for name, ref := range t.Headers {
		if len(name) > 256 || !headerForm.MatchString(name) {
			return at(errors.New("this is not the name of a header"), "telemetry.headers")
		}
		value, err := o.Open(ref)
		if err != nil {
			return at(err, "telemetry.headers.%s", name)
		}
		t.headers[http.CanonicalHeaderKey(name)] = value
	}
	return nil
}
