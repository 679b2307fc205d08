package checks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/base/sigv4"
	"modelgate/internal/guardrail"
)

// azure returns the checks of Azure AI Content Safety and Azure AI Language.
// https://learn.microsoft.com/azure/ai-services/content-safety/
func azure() []partner {
	tokens := &entraTokens{}
	row := func(id, summary, path string, on guardrail.Event, params ...guardrail.Param) partner {
		return partner{
			id: "azure." + id, summary: summary, on: on, each: true, params: params, prepare: tokens.prepare,
			needs: []string{"resourceName"}, optional: []string{"azureAuthMode", "apiKey", "tenantId", "clientId", "clientSecret", "customHost"},
			url:    "https://{resourceName}.cognitiveservices.azure.com/" + path + "?api-version={apiVersion}",
			places: map[string]place{"customHost": base, "tenantId": segment},
		}
	}
	version := func(v string) guardrail.Param {
		return param("apiVersion", guardrail.String, `"`+v+`"`, "Version of the API.")
	}
	safety := row("contentSafety", "No category reaches the severity, and no entry of a blocklist is found.", "contentsafety/text:analyze", 0,
		guardrail.Param{Name: "categories", Type: guardrail.StringList, Enum: []string{"Hate", "SelfHarm", "Sexual", "Violence"},
			Default: `["Hate","SelfHarm","Sexual","Violence"]`, Doc: "Categories to look for."},
		guardrail.Param{Name: "severity", Type: guardrail.Integer, Default: "2", Min: 0, Max: 7, Doc: "Severity from which the check fails."},
		param("blocklistNames", guardrail.StringList, "[]", "Blocklists of the resource."), version("2024-11-01"))
	safety.body = func(c *call) any {
		return object{"text": c.text, "categories": c.p.Strings("categories"), "blocklistNames": c.p.Strings("blocklistNames")}
	}
	safety.read = readContentSafety

	pii := row("pii", "The text has no personal data, or it was redacted.", "language/:analyze-text", 0,
		param("domain", guardrail.String, `"none"`, "Domain of the data."),
		param("modelVersion", guardrail.String, `"latest"`, "Version of the model."),
		param("piiCategories", guardrail.StringList, "", "Categories to look for; all by default."),
		param("language", guardrail.String, `"en"`, "Language of the text."), redactParam, version("2024-11-01"))
	pii.changes = true
	pii.body = func(c *call) any {
		parameters := object{"domain": c.p.String("domain"), "modelVersion": c.p.String("modelVersion")}
		if list := c.p.Strings("piiCategories"); len(list) > 0 {
			parameters["piiCategories"] = list
		}
		return object{"kind": "PiiEntityRecognition", "parameters": parameters,
			"analysisInput": object{"documents": []any{object{"id": "0", "text": c.text, "language": c.p.String("language")}}}}
	}
	pii.read = func(c *call, response document) (reading, error) {
		if failed, _ := response.list("results.errors"); len(failed) > 0 {
			return reading{}, guardrail.NewIncomplete("says that it cannot read the text; send less text, or other text")
		}
		entities, err := response.list("results.documents.0.entities")
		if err != nil || len(entities) == 0 {
			return reading{}, err
		}
		text, err := response.text("results.documents.0.redactedText")
		return redacted(c, text, "personal data was found"), err
	}

	shield := row("shieldPrompt", "No attack on the instructions is detected.", "contentsafety/text:shieldPrompt", before,
		version("2024-09-01"))
	shield.body = func(c *call) any { return object{"userPrompt": c.text, "documents": []string{}} }
	shield.read = func(_ *call, response document) (reading, error) {
		attack, err := response.boolean("userPromptAnalysis.attackDetected")
		return reading{flagged: attack, note: "prompt analysed"}, err
	}

	material := row("protectedMaterial", "No protected material is detected.", "contentsafety/text:detectProtectedMaterial", after,
		version("2024-09-01"))
	material.body = func(c *call) any { return object{"text": c.text} }
	material.read = func(_ *call, response document) (reading, error) {
		found, err := response.boolean("protectedMaterialAnalysis.detected")
		return reading{flagged: found, note: "text compared"}, err
	}
	return []partner{safety, pii, shield, material}
}

// redacted returns a reading of text with findings: replaced if the parameter
// redact asks for it.
func redacted(c *call, text, note string) reading {
	if c.p.Bool("redact") {
		return reading{text: text, replaced: true, note: note}
	}
	return reading{flagged: true, note: note}
}

func readContentSafety(c *call, response document) (reading, error) {
	list, err := response.list("categoriesAnalysis")
	if err != nil {
		return reading{}, err
	}
	r := reading{}
	for _, item := range list {
		name, err := document{item}.text("category")
		if err != nil {
			return r, err
		}
		severity, err := document{item}.number("severity")
		if err != nil {
			return r, err
		}
		if severity >= c.p.Number("severity") && slices.Contains(c.p.Strings("categories"), name) {
			r.flagged, r.note = true, strings.TrimPrefix(r.note+", "+name, ", ")
		}
	}
	if hits, _ := response.list("blocklistsMatch"); len(hits) > 0 {
		r.flagged, r.note = true, strings.TrimPrefix(r.note+", blocklist", ", ")
	}
	return r, nil
}

// entraTokens holds access tokens of Microsoft Entra ID by client.
type entraTokens struct {
	mu    sync.Mutex
	known map[[32]byte]entraToken // guarded by mu
}

type entraToken struct {
	value  secret.String
	expiry time.Time
}

const (
	entraHost  = "https://login.microsoftonline.com"
	entraScope = "https://cognitiveservices.azure.com/.default"
	maxTokens  = 1000
)

// prepare sets the credential of a request to Azure.
func (e *entraTokens) prepare(ctx context.Context, s Services, c *call, o *outgoing) error {
	if host := c.credential("customHost"); host != "" {
		if message := base.check(host); message != "" {
			return errors.New("customHost " + message)
		}
		_, rest, _ := strings.Cut(strings.TrimPrefix(o.url, "https://"), "/")
		o.url, o.chosen = base.write(host)+"/"+rest, true
	}
	switch mode := c.credential("azureAuthMode"); mode {
	case "", "apiKey":
		if c.credential("apiKey") == "" {
			return errors.New("the credential apiKey of azure is not set")
		}
		o.header.Set("Ocp-Apim-Subscription-Key", c.credential("apiKey"))
	case "entra":
		token, err := e.token(ctx, s, c)
		if err != nil {
			return err
		}
		o.header.Set("Authorization", "Bearer "+token.Reveal())
	default:
		return errors.New("the credential azureAuthMode of azure must be apiKey or entra")
	}
	return nil
}

// token returns a token for the client, from memory or from Entra ID.
// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
func (e *entraTokens) token(ctx context.Context, s Services, c *call) (secret.String, error) {
	tenant, client, password := c.credential("tenantId"), c.credential("clientId"), c.credential("clientSecret")
	if tenant == "" || client == "" || password == "" {
		return secret.String{}, errors.New("the credentials tenantId, clientId and clientSecret of azure must be set")
	}
	if message := segment.check(tenant); message != "" {
		return secret.String{}, errors.New("tenantId " + message)
	}
	key := sha256.Sum256([]byte(tenant + "\x00" + client + "\x00" + password))
	e.mu.Lock()
	known := e.known[key]
	e.mu.Unlock()
	if time.Now().Before(known.expiry) {
		return known.value, nil
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {client}, "client_secret": {password}, "scope": {entraScope}}
	raw, err := s.send(ctx, c.in, outgoing{method: http.MethodPost, url: entraHost + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token",
		header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, body: []byte(form.Encode())})
	if err != nil {
		return secret.String{}, err
	}
	var response struct {
		Token   string  `json:"access_token"`
		Seconds float64 `json:"expires_in"`
	}
	if err := decode(raw, &response, "Entra ID"); err != nil || response.Token == "" {
		return secret.String{}, errors.New("the response of Entra ID has no access token")
	}
	value := entraToken{secret.New(response.Token), time.Now().Add(time.Duration(min(response.Seconds, 86400)-60) * time.Second)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known == nil || len(e.known) >= maxTokens {
		e.known = map[[32]byte]entraToken{}
	}
	e.known[key] = value
	return value.value, nil
}

// bedrock returns the check by guardrails of Amazon Bedrock.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ApplyGuardrail.html
func bedrock() []partner {
	const id = "bedrock.guard"
	service, _, _ := strings.Cut(id, ".")
	return []partner{{
		id: id, summary: "The guardrail does not intervene, or only masked personal data.", each: true, changes: true,
		needs: []string{"awsAccessKeyId", "awsSecretAccessKey", "awsRegion"}, optional: []string{"awsSessionToken"},
		params: []guardrail.Param{required("guardrailId", guardrail.String, "Id of the guardrail."),
			required("guardrailVersion", guardrail.String, "Version, such as `1` or `DRAFT`."), redactParam},
		url: "https://bedrock-runtime.{awsRegion}.amazonaws.com/guardrail/{guardrailId}/version/{guardrailVersion}/apply",
		body: func(c *call) any {
			return object{"source": c.side("INPUT", "OUTPUT"), "content": []any{object{"text": object{"text": c.text}}}}
		},
		prepare: func(_ context.Context, _ Services, c *call, o *outgoing) error {
			req, err := http.NewRequest(o.method, o.url, nil)
			if err != nil {
				return errors.New("the region of bedrock is invalid")
			}
			sum := sha256.Sum256(o.body)
			req.Header.Set("Content-Type", "application/json")
			keys := sigv4.Keys{ID: c.credential("awsAccessKeyId"), Secret: c.own["awsSecretAccessKey"], Session: c.own["awsSessionToken"]}
			err = sigv4.Sign(req, keys, sigv4.Scope{Region: c.credential("awsRegion"), Service: service}, hex.EncodeToString(sum[:]), time.Now())
			maps.Copy(o.header, req.Header)
			return err
		},
		read: readBedrock,
	}}
}

func readBedrock(c *call, response document) (reading, error) {
	action, err := response.text("action")
	if err != nil || action == "NONE" {
		return reading{}, err
	}
	if action != "GUARDRAIL_INTERVENED" {
		return reading{}, errors.New("has an unknown action")
	}
	assessments, err := response.list("assessments")
	if err != nil {
		return reading{}, err
	}
	onlyPII, note, text := true, []string{}, c.text
	for _, item := range assessments {
		kinds, _ := item.(map[string]any)
		for kind := range kinds {
			switch kind {
			case "sensitiveInformationPolicy":
			case "invocationMetrics", "guardrailCoverage", "appliedGuardrailDetails":
				continue
			default:
				onlyPII = false
			}
			note = append(note, kind)
		}
		text = maskEntities(text, document{item})
	}
	slices.Sort(note)
	r := reading{flagged: true, note: strings.Join(note, ", ")}
	if onlyPII && len(note) > 0 && c.p.Bool("redact") {
		masked, absent := response.text("outputs.0.text")
		if absent == nil && masked != "" && masked != c.text && anonymized(assessments) {
			text = masked
		}
		r.flagged, r.replaced, r.text = text == c.text, text != c.text, text
	}
	return r, nil
}

// anonymized reports whether all personal data was masked, so that the output
// is the text and not the message of a blocked request.
func anonymized(assessments []any) bool {
	raw, err := json.Marshal(assessments)
	return err == nil && !strings.Contains(string(raw), `"action":"BLOCKED"`)
}

// maskEntities replaces what an assessment names by its type.
func maskEntities(text string, assessment document) string {
	for place, kind := range map[string]string{"piiEntities": "type", "regexes": "name"} {
		list, _ := assessment.list("sensitiveInformationPolicy." + place)
		for _, item := range list {
			match, _ := document{item}.text("match")
			name, _ := document{item}.text(kind)
			if match != "" {
				text = strings.ReplaceAll(text, match, "{"+name+"}")
			}
		}
	}
	return text
}
