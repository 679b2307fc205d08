package telemetry

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// FromEnvironment reads the standard variables: OTEL_SDK_DISABLED,
// OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER, OTEL_TRACES_SAMPLER with its _ARG, and
// whether OTEL_EXPORTER_OTLP_* name an endpoint and a protocol. Nothing is sent without
// an endpoint.
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
func FromEnvironment(env func(string) string) (o Options, err error) {
	o.Sample = 1
	if env("OTEL_SDK_DISABLED") == "true" {
		return o, nil
	}
	if o.Metrics, err = collectorOf(env, "METRICS"); err != nil {
		return o, err
	}
	if o.Traces, err = collectorOf(env, "TRACES"); err != nil || o.Traces == nil {
		return o, err
	}
	o.Sample, err = sampleOf(env("OTEL_TRACES_SAMPLER"), env("OTEL_TRACES_SAMPLER_ARG"))
	return o, err
}

// collectorOf returns the collector of a signal, nil for none. The exporter reads the
// address and other variables itself.
func collectorOf(env func(string) string, signal string) (*Collector, error) {
	exporter := "OTEL_" + signal + "_EXPORTER"
	switch v := env(exporter); v {
	case "", "otlp":
	case "none":
		return nil, nil
	default:
		return nil, fmt.Errorf("%s: must be otlp or none, not %.40q", exporter, v)
	}
	if cmp.Or(env("OTEL_EXPORTER_OTLP_ENDPOINT"), env("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT")) == "" {
		return nil, nil
	}
	for _, part := range [...]string{"", signal + "_"} {
		if err := checkExporter(env, "OTEL_EXPORTER_OTLP_"+part); err != nil {
			return nil, err
		}
	}
	switch v := cmp.Or(env("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL")); v {
	case "", "http/protobuf":
		return &Collector{Protocol: HTTP}, nil
	case "grpc":
		return &Collector{Protocol: GRPC}, nil
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf or grpc, not %.40q", v)
	}
}

// checkExporter returns an error for an endpoint or headers that the exporter would
// print and ignore. The error does not repeat them, because they may hold credentials.
func checkExporter(env func(string) string, prefix string) error {
	if endpoint := env(prefix + "ENDPOINT"); endpoint != "" {
		u, err := url.Parse(strings.TrimSpace(endpoint))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%sENDPOINT: must be the http or https address of a collector", prefix)
		}
	}
	for header := range strings.SplitSeq(env(prefix+"HEADERS"), ",") {
		name, value, found := strings.Cut(header, "=")
		if _, err := url.PathUnescape(value); strings.TrimSpace(header) != "" &&
			(!found || !isHeaderName(strings.TrimSpace(name)) || err != nil) {
			return fmt.Errorf("%sHEADERS: must be names and percent-encoded values, such as api-key=abc,x-team=blue", prefix)
		}
	}
	return nil
}

// isHeaderName reports whether a name is a token of RFC 9110.
func isHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// sampleOf returns the fraction of traces that a sampler takes. All samplers follow the
// client's traceparent first.
func sampleOf(sampler, arg string) (float64, error) {
	switch sampler {
	case "", "always_on", "parentbased_always_on":
		return 1, nil
	case "always_off", "parentbased_always_off":
		return 0, nil
	case "traceidratio", "parentbased_traceidratio":
		if arg == "" {
			return 1, nil
		}
		part, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(part >= 0 && part <= 1) {
			return 0, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: must be 0 to 1, not %.40q", arg)
		}
		return part, nil
	}
	return 0, fmt.Errorf("OTEL_TRACES_SAMPLER: %.40q is unknown", sampler)
}
