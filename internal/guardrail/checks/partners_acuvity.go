package checks

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"modelgate/internal/guardrail"
)

// acuvityGuards are the parameters of acuvity and where their scores are.
var acuvityGuards = []struct{ name, place string }{
	{"prompt_injection", "exploits.prompt_injection"}, {"jail_break", "exploits.jailbreak"}, {"malicious_url", "exploits.malicious_url"},
	{"toxic", "malcontents.toxic"}, {"biased", "malcontents.biased"}, {"harmful", "malcontents.harmful_content"},
}

func acuvity() []partner {
	var params []guardrail.Param
	for _, g := range acuvityGuards {
		params = append(params, param(g.name, guardrail.Boolean, "false", "Looks for it."),
			guardrail.Param{Name: g.name + "_threshold", Type: guardrail.Number, Default: "0.5", Min: 0, Max: 1,
				Doc: "Score from which it is found."})
	}
	params = append(params, param("language", guardrail.Boolean, "false", "Checks the language."),
		param("language_values", guardrail.StringOrList, "", "Languages that pass."),
		param("pii", guardrail.Boolean, "false", "Looks for personal data."), param("pii_redact", guardrail.Boolean, "false", "Redacts it."),
		param("pii_categories", guardrail.StringList, "", "Categories of personal data."),
		param("secrets", guardrail.Boolean, "false", "Looks for credentials."),
		param("secrets_redact", guardrail.Boolean, "false", "Redacts them."),
		param("secrets_categories", guardrail.StringList, "", "Categories of credentials."))
	return []partner{{
		id: "acuvity.scan", summary: "None of the enabled guards finds anything, or it was redacted.", needs: []string{"apiKey"}, params: params,
		changes: true, each: true,
		url: "https://acuvity/_acuvity/scan", headers: bearer, places: map[string]place{"apiKey": token}, // the host comes from the key
		prepare: func(_ context.Context, _ Services, c *call, o *outgoing) error {
			host, err := acuvityHost(c.credential("apiKey"))
			o.url, o.chosen = host+"/_acuvity/scan", true
			return err
		},
		body: func(c *call) any {
			redactions := []string{}
			if c.p.Bool("pii_redact") {
				redactions = append(redactions, c.p.Strings("pii_categories")...)
			}
			if c.p.Bool("secrets_redact") {
				redactions = append(redactions, c.p.Strings("secrets_categories")...)
			}
			return object{"anonymization": "FixedSize", "messages": []string{c.text}, "redactions": redactions, "type": c.side("Input", "Output")}
		},
		read: readAcuvity,
	}}
}

// acuvityHost returns the base address in the claims of a key, which is a JSON
// Web Token.
func acuvityHost(key string) (string, error) {
	wrong := errors.New("the credential apiKey of acuvity contains no address")
	parts := strings.Split(key, ".")
	if len(parts) != 3 {
		return "", wrong
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims struct {
		Opaque map[string]string `json:"opaque"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Opaque["apex-url"] == "" {
		return "", wrong
	}
	if !isBase(claims.Opaque["apex-url"]) {
		return "", wrong
	}
	return base.write(claims.Opaque["apex-url"]), nil
}

func readAcuvity(c *call, response document) (reading, error) {
	if _, err := response.object("extractions.0"); err != nil {
		return reading{}, err
	}
	got := response.at("extractions.0")
	var found []string
	for _, g := range acuvityGuards {
		score, err := got.number(g.place)
		if err == nil && c.p.Bool(g.name) && score >= c.p.Number(g.name+"_threshold") {
			found = append(found, g.name)
		}
	}
	if languages, _ := got.object("languages"); c.p.Bool("language") {
		known := false
		for name := range languages {
			known = known || slices.Contains(c.p.Strings("language_values"), name)
		}
		if !known {
			found = append(found, "language")
		}
	}
	redactable := false
	for name, place := range map[string]string{"pii": "PIIs", "secrets": "secrets"} {
		categories, _ := got.object(place)
		hit := false
		for category := range categories {
			wanted := c.p.Strings(name + "_categories")
			hit = hit || len(wanted) == 0 || slices.Contains(wanted, category)
		}
		switch {
		case !hit || !c.p.Bool(name):
		case c.p.Bool(name + "_redact"):
			redactable = true
		default:
			found = append(found, name)
		}
	}
	r := reading{flagged: len(found) > 0, note: strings.Join(found, ", ")}
	if redactable && !r.flagged {
		text, err := got.text("data")
		r.text, r.replaced = text, true
		return r, err
	}
	return r, nil
}
