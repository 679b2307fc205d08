package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/config"
)

// draw returns a valid config in its plain spelling, and in another one.
func draw(t *rapid.T) (plain, other string) {
	o := node(t, 3)
	seed := rapid.Uint64().Draw(t, "seed")
	return spelling{}.write(o), spelling{rand.New(rand.NewPCG(seed, 1))}.write(o)
}

func parse(t *rapid.T, text string) *config.Config {
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse(%s) = %v", text, err)
	}
	return c
}

func TestSameMeaningGivesTheSameBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain, other := draw(t)
		a, b := parse(t, plain).Canonical(), parse(t, other).Canonical()
		if string(a) != string(b) {
			t.Fatalf("%s\nand %s\ngive %s\nand  %s", plain, other, a, b)
		}
	})
}

func TestRevealedFormIsReadBackAsTheSameConfig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, text := draw(t)
		once := parse(t, text)
		again := parse(t, string(once.Reveal()))
		if a, b := once.Reveal(), again.Reveal(); string(a) != string(b) {
			t.Fatalf("%s is read back as %s", a, b)
		}
		// After one round the order of everything is settled.
		if diff := cmp.Diff(again, parse(t, string(again.Reveal())), cmp.Comparer(sameQuery), sizeless); diff != "" {
			t.Fatal(diff)
		}
	})
}

func sameQuery(a, b *config.Query) bool {
	return fmt.Sprint(flat(a)) == fmt.Sprint(flat(b))
}

func flat(q *config.Query) []string {
	lines := []string{string(q.Op), q.Path, string(q.Operand)}
	for _, inner := range q.Queries {
		lines = append(lines, flat(inner)...)
	}
	return lines
}

func TestNothingPrintsCredentials(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, text := draw(t)
		c := parse(t, text)
		asJSON, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var logged strings.Builder
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "config", c, "key", c.APIKey, "options", c.Options, "account", c.ServiceAccount)
		type bareConfig config.Config // without the methods of Config
		for _, shown := range []string{
			string(c.Canonical()), string(asJSON), logged.String(),
			fmt.Sprintf("%v %+v %#v %s", c, *c, c.APIKey, c.Options),
			fmt.Sprintf("%v %+v %#v %q %x", bareConfig(*c), bareConfig(*c), *c, c.Options, c.APIKey),
		} {
			if strings.Contains(shown, secretMark) || strings.Contains(shown, fmt.Sprintf("%x", secretMark)) {
				t.Fatalf("a credential is shown in %s", shown)
			}
		}
	})
}

func TestACredentialPrintsAsDots(t *testing.T) {
	for value, want := range map[string]string{"sekret": "•••", "": ""} {
		s := config.NewSecret(value)
		asJSON, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %v %+v", s, s, s); s.String() != want || got != want+" "+want+" "+want || string(asJSON) != `"`+want+`"` {
			t.Errorf("a credential of %d bytes prints as %q, %s and %s, want %q", len(value), s.String(), got, asJSON, want)
		}
		if s.Reveal() != value || s.Empty() != (value == "") || !s.Equal(config.NewSecret(value)) || s.Equal(config.NewSecret("other")) {
			t.Errorf("a credential of %d bytes is not what was put in", len(value))
		}
	}
}

func TestOptionsPrintNoCredential(t *testing.T) {
	options := config.Options{"vendora_organization": "org", "cloud_a_region": "eu", "cloud_a_access_key_id": "sekret", "oracle_key_passphrase": "sekret", "of_a_later_version": "sekret"}
	want := "map[cloud_a_access_key_id:••• cloud_a_region:eu of_a_later_version:••• oracle_key_passphrase:••• vendora_organization:org]"
	if got := fmt.Sprint(options); got != want {
		t.Errorf("the options print as %s, want %s", got, want)
	}
	if options["cloud_a_access_key_id"] != "sekret" {
		t.Error("printing options changes them")
	}
}

func TestCredentialsTellConfigsApart(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		`{"provider":"openai","api_key":"one"}`,
		`{"provider":"openai","api_key":"two"}`,
		`{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_service_account_json":{"a":"b"}}`,
		`{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_service_account_json":{"a":"c"}}`,
		`{"provider":"bedrock","cloud_a_access_key_id":"i","cloud_a_secret_access_key":"s"}`,
		`{"provider":"bedrock","cloud_a_access_key_id":"i","cloud_a_secret_access_key":"t"}`,
	} {
		form := string(mustParse(t, text).Canonical())
		if first, twice := seen[form]; twice {
			t.Errorf("%s and %s have the same form %s", first, text, form)
		}
		seen[form] = text
	}
}

func TestOtherMeaningGivesOtherBytes(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		`{"request_timeout":100}`,
		`{"request_timeout":101}`,
		`{"request_timeout":100,"on_status_codes":[]}`,
		`{"request_timeout":100,"strict_vendora_compliance":false}`,
		`{"request_timeout":100,"strict_vendora_compliance":true}`,
		`{"request_timeout":100,"weight":0}`,
		`{"request_timeout":100,"weight":1}`,
		`{"request_timeout":100,"weight":0.25}`,
		`{"request_timeout":100,"weight":0.26}`,
		`{"request_timeout":100,"weight":123456789.125}`,
		`{"request_timeout":100,"weight":123456789.25}`,
		`{"request_timeout":100,"override_params":{}}`,
		`{"request_timeout":100,"override_params":{"id":12345678901234567890}}`,
		`{"request_timeout":100,"override_params":{"id":12345678901234567891}}`,
		`{"request_timeout":100,"override_params":{"id":"1"}}`,
		`{"request_timeout":100,"override_params":{"a":[1,2]}}`,
		`{"request_timeout":100,"override_params":{"a":[2,1]}}`,
		`{"request_timeout":100,"override_params":{"aB":1}}`,
		`{"request_timeout":100,"override_params":{"a_b":1}}`,
		`{"request_timeout":100,"forward_headers":[]}`,
		tree(`{"mode":"conditional","default":"a","conditions":[{"query":{"metadata.a":1},"then":"a"}]}`, named),
		tree(`{"mode":"conditional","default":"a","conditions":[{"query":{"metadata.a":2},"then":"a"}]}`, named),
		tree(`{"mode":"conditional","default":"a","conditions":[{"query":{"metadata.b":1},"then":"a"}]}`, named),
		tree(`{"mode":"conditional","default":"a","conditions":[{"query":{},"then":"a"}]}`, named),
		`{"request_timeout":100,"input_guardrails":[{"a":{},"id":"x"}]}`,
		`{"request_timeout":100,"input_guardrails":[{"b":{},"id":"x"}]}`,
	} {
		form := string(mustParse(t, text).Canonical())
		if first, twice := seen[form]; twice {
			t.Errorf("%s and %s have the same form %s", first, text, form)
		}
		seen[form] = text
	}
}

// The canonical spelling of a number keeps its value exactly.
func TestNumbersKeepTheirValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "literal")
		c := parse(t, `{"virtual_key":"v","override_params":{"n":`+literal+`}}`)
		var out struct {
			OverrideParams struct{ N json.Number } `json:"override_params"`
		}
		if err := json.Unmarshal(c.Canonical(), &out); err != nil {
			t.Fatal(err)
		}
		want, _ := new(big.Rat).SetString(literal)
		got, ok := new(big.Rat).SetString(out.OverrideParams.N.String())
		if !ok || got.Cmp(want) != 0 {
			t.Fatalf("%s is written as %s", literal, out.OverrideParams.N)
		}
	})
}

func TestEqualNumbersHaveOneSpelling(t *testing.T) {
	const digits = "1234567890123456789012345" // as many as are kept
	for want, spellings := range map[string][]string{
		"0":                             {"0", "-0", "0.0", "0e5", "-0.000e-7"},
		"1":                             {"1", "1.0", "10e-1", "0.1E+1", "100E-2"},
		"-1.5":                          {"-1.5", "-15e-1", "-0.150e1"},
		"120":                           {"120", "12e1", "1.2e2", "0.12E3"},
		"0.5":                           {"0.5", "5e-1", "0.50", "50e-2"},
		"12.5":                          {"12.5", "125e-1", "0.125e2"},
		"0.05":                          {"0.05", "5e-2", "0.0005e2"},
		"100000000000000000000":         {"1e20", "100000000000000000000", "10.0e19"}, // 21 places
		"1e21":                          {"1e21", "1000000000000000000000", "0.1e22"},
		"12e20":                         {"1.2e21", "12e20"},
		"0.000000000000000000001":       {"1e-21", "0.000000000000000000001", "10e-22"},
		"1e-22":                         {"1e-22", "0.0000000000000000000001"},
		digits:                          {digits, digits + ".0", digits + "0e-1"},
		digits + "e1":                   {digits + "0", digits + "e1"},
		digits[:22] + "." + digits[22:]: {digits + "e-3", digits[:22] + "." + digits[22:] + "0"},
		digits[:1] + "." + digits[1:]:   {digits + "e-24"},
		digits + "e-25":                 {digits + "e-25", "0." + digits},
		digits[:21] + "e-22":            {"0.0" + digits[:21]},
		"0." + digits[:19] + "2":        {"0." + digits[:19] + "2", digits[:19] + "2e-20"},
		"-0.012":                        {"-0.012", "-12e-3", "-1.2E-02"},
	} {
		for _, n := range spellings {
			c := mustParse(t, `{"virtual_key":"v","override_params":{"n":`+n+`}}`)
			var form struct {
				Params struct{ N json.RawMessage } `json:"override_params"`
			}
			if err := json.Unmarshal(c.Canonical(), &form); err != nil || string(form.Params.N) != want {
				t.Errorf("the canonical form of %s is %s, %v; want %s", n, form.Params.N, err, want)
			}
		}
	}
}

func TestFreeContentStaysAsItWasWritten(t *testing.T) {
	c := mustParse(t, `{"virtual_key":"v","override_params":{ "z":1.0,"snake_case": {"b" : 1e2,"aB":"\u0041"} },"input_guardrails":[{"my.check":{ "on_fail": [1.50] }}]}`)
	z, _ := c.OverrideParams.Get("z")
	inner, _ := c.OverrideParams.Get("snake_case")
	params, _ := c.InputGuardrails[0].Checks[0].Parameters.Get("on_fail")
	if got := fmt.Sprintf("%s %s %s", z, inner, params); got != `1.0 {"b" : 1e2,"aB":"\u0041"} [1.50]` {
		t.Errorf("content = %s", got)
	}
	if c.OverrideParams[0].Name != "z" || c.InputGuardrails[0].Checks[0].ID != "my.check" {
		t.Errorf("order or name lost: %s, %v", c.OverrideParams[0].Name, c.InputGuardrails[0].Checks)
	}
}
