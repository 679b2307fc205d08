package checks_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

// simulator stands for the servers of partners.
type simulator func(req *http.Request, body string) (status int, response io.Reader, err error)

// Do implements checks.Doer.
func (s simulator) Do(req *http.Request, guarded bool) (*http.Response, error) {
	if !guarded {
		return nil, errors.New("the request is not guarded")
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	status, response, err := s(req, string(body))
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(response), Header: http.Header{}}, nil
}

// partnerRow is a check of a partner: what it must send, and what two replies
// mean. The formats are those of the vendors' documentation.
type partnerRow struct {
	id, credentials, params string
	on                      guardrail.Event
	url, header, sends      string // parts of the request: the address, a header as name: value, and the body
	passes, fails           string // replies
	redacts, want           string // reply with the parameter redact, and the text it makes of "my secret text"
}

const before, after = guardrail.Before, guardrail.After

var acuvityKey = "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"opaque":{"apex-url":"https://apex.example.com"}}`)) + ".c2ln"

var key = `"credentials":{"apiKey":"k-123"}`

const alibabaKey = `"credentials":{"accessKeyId":"AK","accessKeySecret":"k-123"}`

var partnerRows = []partnerRow{
	{id: "acuvity.scan", credentials: `"credentials":{"apiKey":"` + acuvityKey + `"}`, params: `"prompt_injection":true,"prompt_injection_threshold":0.7`, on: before,
		url: "https://apex.example.com/_acuvity/scan", header: "Authorization: Bearer " + acuvityKey, sends: `"type":"Input"`,
		passes: `{"extractions":[{"exploits":{"prompt_injection":0.6}}]}`, fails: `{"extractions":[{"exploits":{"prompt_injection":0.9}}]}`},
	{id: "acuvity.scan", credentials: `"credentials":{"apiKey":"` + acuvityKey + `"}`, params: `"pii":true,"pii_redact":true,"pii_categories":["email_address"]`, on: after, sends: `"redactions":["email_address"]`,
		passes: `{"extractions":[{}]}`, redacts: `{"extractions":[{"PIIs":{"email_address":0.9},"data":"my **** text"}]}`, want: "my **** text"},
	{id: "aporia.validateProject", credentials: key, params: `"projectID":"p/1"`, on: before, url: "https://gr-prd.aporia.com/p%2F1/validate", header: "X-Aporia-Api-Key: k-123", sends: `"validation_target":"prompt"`,
		passes: `{"action":"passthrough"}`, fails: `{"action":"block"}`},
	{id: "azure.contentSafety", credentials: `"credentials":{"resourceName":"res","apiKey":"k-123"}`, params: `"categories":["Hate"],"severity":4`, on: before,
		url: "https://res.cognitiveservices.azure.com/contentsafety/text:analyze?api-version=2024-11-01", header: "Ocp-Apim-Subscription-Key: k-123", sends: `"categories":["Hate"]`,
		passes: `{"categoriesAnalysis":[{"category":"Hate","severity":2}],"blocklistsMatch":[]}`, fails: `{"categoriesAnalysis":[{"category":"Hate","severity":4}]}`},
	{id: "azure.contentSafety", credentials: `"credentials":{"resourceName":"res","apiKey":"k-123"}`, params: `"blocklistNames":["b"]`, on: after, sends: `"blocklistNames":["b"]`,
		passes: `{"categoriesAnalysis":[]}`, fails: `{"categoriesAnalysis":[],"blocklistsMatch":[{"blocklistName":"b"}]}`},
	{id: "azure.pii", credentials: `"credentials":{"resourceName":"res","apiKey":"k-123"}`, on: before, url: "/language/:analyze-text?api-version=2024-11-01", sends: `"kind":"PiiEntityRecognition"`,
		passes: `{"results":{"documents":[{"id":"0","redactedText":"my secret text","entities":[]}]}}`, fails: `{"results":{"documents":[{"redactedText":"my ****** text","entities":[{"category":"Person"}]}]}}`,
		redacts: `{"results":{"documents":[{"redactedText":"my ****** text","entities":[{"category":"Person"}]}]}}`, want: "my ****** text"},
	{id: "azure.shieldPrompt", credentials: `"credentials":{"resourceName":"res","apiKey":"k-123"}`, on: before, url: "contentsafety/text:shieldPrompt?api-version=2024-09-01", sends: `"userPrompt":"my secret text"`,
		passes: `{"userPromptAnalysis":{"attackDetected":false}}`, fails: `{"userPromptAnalysis":{"attackDetected":true}}`},
	{id: "azure.protectedMaterial", credentials: `"credentials":{"resourceName":"res","apiKey":"k-123"}`, on: after, url: "contentsafety/text:detectProtectedMaterial?api-version=2024-09-01",
		passes: `{"protectedMaterialAnalysis":{"detected":false}}`, fails: `{"protectedMaterialAnalysis":{"detected":true}}`},
	{id: "bedrock.guard", credentials: `"credentials":{"awsAccessKeyId":"AK","awsSecretAccessKey":"SK","awsRegion":"eu-west-1"}`, params: `"guardrailId":"g1","guardrailVersion":"2"`, on: after,
		url: "https://bedrock-runtime.eu-west-1.amazonaws.com/guardrail/g1/version/2/apply", header: "Authorization: AWS4-HMAC-SHA256 Credential=AK/", sends: `"source":"OUTPUT"`,
		passes: `{"action":"NONE","assessments":[]}`, fails: `{"action":"GUARDRAIL_INTERVENED","assessments":[{"contentPolicy":{"filters":[]}}]}`,
		redacts: `{"action":"GUARDRAIL_INTERVENED","outputs":[{"text":"my {NAME} text"}],"assessments":[{"sensitiveInformationPolicy":{"piiEntities":[{"type":"NAME","match":"secret","action":"ANONYMIZED"}]}}]}`, want: "my {NAME} text"},
	{id: "crowdstrike-aidr.guardChatCompletions", credentials: `"credentials":{"apiKey":"k-123","baseUrl":"https://aidr.example.com/"}`, on: before, url: "https://aidr.example.com/v1/guard_chat_completions", header: "Authorization: Bearer k-123", sends: `"event_type":"input"`,
		passes: `{"result":{"blocked":false}}`, fails: `{"result":{"blocked":true}}`},
	{id: "f5-guardrails.scan", credentials: key, params: `"projectId":"p1"`, on: before, url: "https://us1.calypsoai.app/backend/v1/scans", sends: `"project":"p1"`,
		passes: `{"result":{"outcome":"cleared"}}`, fails: `{"result":{"outcome":"flagged"}}`, redacts: `{"redactedInput":"my *** text","result":{"outcome":"redacted"}}`, want: "my *** text"},
	{id: "javelin.guardrails", credentials: `"credentials":{"apiKey":"k-123","application":"app","domain":"api.example.com"}`, on: before, url: "https://api.example.com/v1/guardrails/apply", header: "X-Javelin-Application: app",
		passes: `{"assessments":[{"promptinjectiondetection":{"request_reject":false}}]}`, fails: `{"assessments":[{"a":{"request_reject":false}},{"trustsafety":{"request_reject":true}}]}`},
	{id: "lakera.guard", credentials: key, params: `"projectId":"p1"`, on: before, url: "https://api.lakera.ai/v2/guard", sends: `"project_id":"p1"`, passes: `{"flagged":false}`, fails: `{"flagged":true}`},
	{id: "lasso.classify", credentials: key, on: before, url: "https://server.lasso.security/gateway/v2/classify", header: "Lasso-Api-Key: k-123", passes: `{"violations_detected":false}`, fails: `{"violations_detected":true}`},
	{id: "mistral.moderateContent", credentials: key, params: `"categories":["law","pii"]`, on: before, url: "https://api.mistral.ai/v1/chat/moderations", sends: `"content":"my secret text"`,
		passes: `{"results":[{"categories":{"law":false,"sexual":true}}]}`, fails: `{"results":[{"categories":{"law":true}}]}`},
	{id: "pangea.textGuard", credentials: `"credentials":{"apiKey":"k-123","domain":"eu.example.com"}`, params: `"recipe":"r"`, on: before, url: "https://ai-guard.eu.example.com/v1/text/guard", sends: `"recipe":"r"`,
		passes: `{"result":{"detectors":{"prompt_injection":{"detected":false}}}}`, fails: `{"result":{"detectors":{"prompt_injection":{"detected":true}}}}`},
	{id: "pangea.pii", credentials: `"credentials":{"apiKey":"k-123","domain":"eu.example.com"}`, on: after, url: "https://redact.eu.example.com/v1/redact_structured", sends: `"data":["my secret text"]`,
		passes: `{"result":{"redacted_data":["my secret text"]}}`, fails: `{"result":{"redacted_data":["my <X> text"]}}`, redacts: `{"result":{"redacted_data":["my <X> text"]}}`, want: "my <X> text"},
	{id: "panw-prisma-airs.intercept", credentials: `"credentials":{"AIRS_API_KEY":"k-123"}`, params: `"profile_name":"p"`, on: after, url: "https://service.api.aisecurity.paloaltonetworks.com/v1/scan/sync/request", header: "X-Pan-Token: k-123",
		sends: `"contents":[{"response":"my secret text"}]`, passes: `{"action":"allow"}`, fails: `{"action":"block"}`},
	{id: "pillar.scanPrompt", credentials: key, params: `"scanners":["pii"]`, on: before, url: "https://api.pillarseclabs.com/api/v1/scan/prompt", sends: `"scanners":{"pii":true}`,
		passes: `{"pii":false,"secrets":null}`, fails: `{"pii":[{"type":"email"}]}`},
	{id: "pillar.scanResponse", credentials: key, on: after, url: "https://api.pillarseclabs.com/api/v1/scan/response", passes: `{"toxic_language":null}`, fails: `{"toxic_language":true}`},
	{id: "promptfoo.guard", on: before, url: "https://api.promptfoo.dev/v1/guard", sends: `"input":"my secret text"`, passes: `{"results":[{"flagged":false,"categories":{"jailbreak":false}}]}`, fails: `{"results":[{"categories":{"jailbreak":true}}]}`},
	{id: "promptfoo.harm", on: after, url: "https://api.promptfoo.dev/v1/harm", passes: `{"results":[{"flagged":false}]}`, fails: `{"results":[{"flagged":true}]}`},
	{id: "promptfoo.pii", on: before, url: "https://api.promptfoo.dev/v1/pii", passes: `{"results":[{"flagged":false}]}`, fails: `{"results":[{"flagged":true,"payload":{"pii":[]}}]}`,
		redacts: `{"results":[{"flagged":true,"payload":{"pii":[{"entity_type":"name","pii":"secret"}]}}]}`, want: "my [name] text"},
	{id: "promptsecurity.protectPrompt", credentials: `"credentials":{"apiKey":"k-123","apiDomain":"eu.prompt.example.com"}`, on: before, url: "https://eu.prompt.example.com/api/protect", header: "App-Id: k-123", sends: `{"prompt":"my secret text"}`,
		passes: `{"result":{"prompt":{"passed":true}}}`, fails: `{"result":{"prompt":{"passed":false}}}`},
	{id: "promptsecurity.protectResponse", credentials: `"credentials":{"apiKey":"k-123","apiDomain":"eu.prompt.example.com"}`, on: after, sends: `{"response":"my secret text"}`,
		passes: `{"result":{"response":{"action":"log"}}}`, fails: `{"result":{"response":{"action":"block"}}}`},
	{id: "sydelabs.sydeguard", credentials: key, params: `"toxicity_threshold":0.8`, on: before, url: "https://guard.sydelabs.ai/api/v1/guard/generate-score", header: "X-Api-Key: k-123",
		passes: `{"category_scores":[{"category":"TOXIC","score":0.7}]}`, fails: `{"category_scores":[{"category":"PROMPT_INJECT","score":0.6}]}`},
	{id: "walledai.walledprotect", credentials: key, on: before, url: "https://services.walled.ai/v1/walled-protect", header: "X-Api-Key: k-123", sends: `"generic_safety_check":true`,
		passes: `{"data":{"safety":[{"isSafe":true}]}}`, fails: `{"data":{"safety":[{"isSafe":false}]}}`},
	{id: "exa.online", credentials: key, on: before, url: "https://api.exa.ai/search", header: "X-Api-Key: k-123", sends: `"numResults":10`, passes: `{"results":[{"title":"T","url":"https://e.example","text":"found"}]}`},
	{id: "tavily.online", credentials: key, on: before, url: "https://api.tavily.com/search", sends: `"max_results":5`, passes: `{"results":[]}`},
	{id: "patronus.pii", credentials: key, on: after, url: "https://api.patronus.ai/v1/evaluate", header: "X-Api-Key: k-123", sends: `"evaluator":"pii"`, passes: `{"results":[{"evaluation_result":{"pass":true}}]}`,
		fails: `{"results":[{"evaluation_result":{"pass":false}}]}`, redacts: `{"results":[{"evaluation_result":{"pass":false,"additional_info":{"positions":[[3,9]]}}}]}`, want: "my ****** text"},
	{id: "patronus.custom", credentials: key, params: `"profile":"acme:mine"`, on: after, sends: `"criteria":"acme:mine"`, passes: `{"results":[{"evaluation_result":{"pass":true}}]}`, fails: `{"results":[{"evaluation_result":{"pass":false}}]}`},
	{id: "akto.scan", credentials: `"credentials":{"apiToken":"k-123","apiUrl":"https://1000-guardrails.example.com"}`, on: before, url: "https://1000-guardrails.example.com/api/http-proxy?guardrails=true&akto_connector=modelgate",
		header: "Authorization: k-123", sends: `"requestPayload":"{\"body\":\"my secret text\"}"`,
		passes: `{"data":{"guardrailsResult":{"Allowed":true,"Modified":false,"Reason":""}}}`, fails: `{"data":{"guardrailsResult":{"Allowed":false,"Reason":"PII","behaviour":"block"}}}`},
	{id: "akto.scan", credentials: `"credentials":{"apiToken":"k-123","apiUrl":"https://1000-guardrails.example.com"}`, on: after, url: "?response_guardrails=true&", sends: `"responsePayload":"{\"body\":\"my secret text\"}"`,
		passes: `{"data":{"guardrailsResult":{"Allowed":true}}}`, fails: `{"data":{"guardrailsResult":{"Allowed":true,"Modified":true,"ModifiedPayload":"x"}}}`},
	{id: "alibaba.guard", credentials: alibabaKey, on: before, url: "https://green-cip.cn-shanghai.aliyuncs.com/", header: "Content-Type: application/x-www-form-urlencoded", sends: "Service=query_security_check&ServiceParameters=%7B%22content%22%3A%22my+secret+text%22%7D&",
		passes: `{"Code":200,"Data":{"Suggestion":"watch"}}`, fails: `{"Code":200,"Data":{"Suggestion":"block","Detail":[]}}`},
	{id: "alibaba.guard", credentials: strings.Replace(alibabaKey, "{", `{"region":"ap-southeast-1",`, 1), params: `"service":"response_security_check_cb"`, on: after, url: "https://green-cip.ap-southeast-1.aliyuncs.com/", sends: "Service=response_security_check_cb&",
		passes: `{"Code":200,"Data":{"Suggestion":"pass"}}`, fails: `{"Code":200,"Data":{"Suggestion":"mask"}}`,
		redacts: `{"Code":200,"Data":{"Suggestion":"mask","Detail":[{"Type":"contentModeration","Result":[{"Label":"x"}]},{"Type":"sensitiveData","Result":[{"Ext":{"Desensitization":"my ****** text"}}]}]}}`, want: "my ****** text"},
	{id: "cato.analyze", credentials: key, on: before, url: "https://api.aisec.catonetworks.com/fw/v1/analyze", header: "Authorization: Bearer k-123", sends: `"messages":[{"content":"my secret text","role":"user"}]`,
		passes: `{"analysis_result":{},"required_action":null}`, fails: `{"analysis_result":{},"required_action":{"action_type":"block_action","detection_message":"no"}}`},
	{id: "cato.analyze", credentials: `"credentials":{"apiKey":"k-123","apiUrl":"https://api.aisec.us1.catonetworks.com"}`, on: after, url: "https://api.aisec.us1.catonetworks.com/fw/v1/analyze", sends: `"role":"assistant"`,
		passes: `{"analysis_result":{},"required_action":{"action_type":"monitor_action"}}`, fails: `{"analysis_result":{},"required_action":{"action_type":"anonymize_action"}}`},
	{id: "zscaler.guard", credentials: key, on: before, url: "https://api.zseclipse.net/v1/detection/resolve-and-execute-policy", header: "Authorization: Bearer k-123", sends: `{"content":"my secret text","direction":"IN"}`,
		passes: `{"action":"DETECT","policyName":"p"}`, fails: `{"action":"BLOCK","severity":"HIGH"}`},
	{id: "zscaler.guard", credentials: `"credentials":{"apiKey":"k-123","apiUrl":"https://api.eu1.zseclipse.net"}`, params: `"policyId":1154`, on: after, url: "https://api.eu1.zseclipse.net/v1/detection/execute-policy", sends: `"direction":"OUT","policyId":1154`,
		passes: `{"action":"ALLOW"}`, fails: `{"action":"BLOCK"}`},
	{id: "qualifire.policy", credentials: key, params: `"policies":["be kind"],"mode":"speed"`, on: before, url: "https://proxy.qualifire.ai/api/evaluation/evaluate", header: "X-Qualifire-Api-Key: k-123", sends: `"assertions":["be kind"]`,
		passes: `{"status":"success"}`, fails: `{"status":"failed"}`},
}

func init() { // rows that differ in one word only
	for name, sends := range map[string]string{"phi": `"evaluator":"phi"`, "isConcise": "patronus:is-concise", "isHelpful": "patronus:is-helpful", "isPolite": "patronus:is-polite",
		"noApologies": "patronus:no-apologies", "noGenderBias": "patronus:no-gender-bias", "noRacialBias": "patronus:no-racial-bias", "retrievalAnswerRelevance": "retrieval-answer-relevance", "toxicity": `"toxicity"`} {
		partnerRows = append(partnerRows, partnerRow{id: "patronus." + name, credentials: key, on: after, sends: sends,
			passes: `{"results":[{"evaluation_result":{"pass":true}}]}`, fails: `{"results":[{"evaluation_result":{"pass":false}}]}`})
	}
	for name, on := range map[string]guardrail.Event{"contentModeration": before, "pii": before, "promptInjections": before, "hallucinations": after, "grounding": after, "toolUseQuality": after} {
		partnerRows = append(partnerRows, partnerRow{id: "qualifire." + name, credentials: key, on: on, sends: "true", passes: `{"status":"success"}`, fails: `{"status":"failed"}`})
	}
}

func (row partnerRow) parameters(more string) string {
	list := slices.DeleteFunc([]string{row.credentials, row.params, more}, func(s string) bool { return s == "" })
	return "{" + strings.Join(list, ",") + "}"
}

// against runs the check of a row against a simulator.
func (row partnerRow) against(t *testing.T, more string, s simulator) (guardrail.CheckResult, *guardrail.Outcome) {
	t.Helper()
	in := text(row.on, "my secret text")
	in.Request = &guardrail.Request{Operation: "chatComplete", Model: "m", TraceID: "tr", Header: http.Header{}}
	return run(t, checks.Services{Client: s}, in, row.id, row.parameters(more))
}

func TestEveryPartnerIsTestedAgainstItsSimulator(t *testing.T) {
	local := []string{"default", "gateway"}
	for _, d := range checks.New(checks.Services{}).Definitions() {
		if !slices.Contains(local, d.Family()) && !slices.ContainsFunc(partnerRows, func(r partnerRow) bool { return r.id == d.ID }) {
			t.Errorf("%s has no row in partnerRows", d.ID)
		}
	}
}

func TestPartnersAreAskedAndUnderstood(t *testing.T) {
	for _, row := range partnerRows {
		for _, tt := range []struct{ response, want string }{{row.passes, "passed"}, {row.fails, "failed"}} {
			if tt.response == "" {
				continue
			}
			t.Run(row.id+" "+tt.want, func(t *testing.T) {
				sent := false
				r, _ := row.against(t, "", func(req *http.Request, body string) (int, io.Reader, error) {
					sent = true
					if name, value, _ := strings.Cut(row.header, ": "); !strings.HasPrefix(req.Header.Get(name), value) {
						t.Errorf("header %s = %q, want %q", name, req.Header.Get(name), value)
					}
					if req.Method != http.MethodPost || !strings.Contains(req.URL.String(), row.url) || !strings.Contains(body, row.sends) || !json.Valid([]byte(body)) && !strings.HasPrefix(body, "AccessKeyId=") {
						t.Errorf("request = %s %s %s, want %s with %s", req.Method, req.URL, body, row.url, row.sends)
					}
					return 200, strings.NewReader(tt.response), nil
				})
				if got := resultOf(r); got != tt.want || !sent {
					t.Errorf("result = %s (%v, %v), sent %t; want %s", got, r.Data, r.Error, sent, tt.want)
				}
			})
		}
	}
}

func TestPartnersRedactTheText(t *testing.T) {
	n := 0
	for _, row := range partnerRows {
		if row.redacts == "" {
			continue
		}
		n++
		more := `"redact":true`
		if row.id == "acuvity.scan" {
			more = ""
		}
		r, out := row.against(t, more, func(*http.Request, string) (int, io.Reader, error) { return 200, strings.NewReader(row.redacts), nil })
		if resultOf(r) != "passed" || !r.Transformed || out.Parts[0].Text != row.want {
			t.Errorf("%s: result = %s %v, text %q; want passed with %q", row.id, resultOf(r), r.Error, out.Parts[0].Text, row.want)
		}
	}
	if n < 8 {
		t.Errorf("%d partners redact, want at least 8", n)
	}
}

// TestPartnersThatMisbehaveFailTheCheck holds for outages, slowness and wrong
// responses: the check reports an error, in time, without the credential.
func TestPartnersThatMisbehaveFailTheCheck(t *testing.T) {
	for _, tt := range []struct {
		name, message string
		s             simulator
	}{
		{"outage", "failed", func(*http.Request, string) (int, io.Reader, error) { return 0, nil, errors.New("connection refused") }},
		{"slow headers", "did not end within 30 ms", func(req *http.Request, _ string) (int, io.Reader, error) {
			<-req.Context().Done()
			return 0, nil, req.Context().Err()
		}},
		{"slow body", "did not end within 30 ms", func(req *http.Request, _ string) (int, io.Reader, error) {
			return 200, hanging{req.Context()}, nil
		}},
		{"500", "status 500", func(*http.Request, string) (int, io.Reader, error) {
			return 500, strings.NewReader(`{"action":"passthrough"}`), nil
		}},
		{"redirect", "status 302", func(*http.Request, string) (int, io.Reader, error) { return 302, strings.NewReader(""), nil }},
		{"no JSON", "not the expected JSON", func(*http.Request, string) (int, io.Reader, error) { return 200, strings.NewReader("<html>"), nil }},
		{"another JSON", "has", func(*http.Request, string) (int, io.Reader, error) { return 200, strings.NewReader(`{"ok":true}`), nil }},
		{"an array", "has", func(*http.Request, string) (int, io.Reader, error) { return 200, strings.NewReader(`[]`), nil }},
		{"oversized", "larger than", func(*http.Request, string) (int, io.Reader, error) { return 200, endless{}, nil }},
		{"deep", "not the expected JSON", func(*http.Request, string) (int, io.Reader, error) {
			return 200, strings.NewReader(strings.Repeat("[", 100_000)), nil
		}},
		{"broken off", "broke off", func(*http.Request, string) (int, io.Reader, error) {
			return 200, io.MultiReader(strings.NewReader(`{"act`), broken{}), nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, row := range partnerRows {
				more := ""
				if strings.HasPrefix(tt.name, "slow") {
					more = `"timeout":30`
				}
				r, _ := row.against(t, more, tt.s)
				if r.Error == nil || !strings.Contains(r.Error.Message, tt.message) || r.Verdict {
					t.Errorf("%s: error = %v, want …%s…", row.id, r.Error, tt.message)
				} else if printed, _ := json.Marshal(r); bytes.Contains(printed, []byte("k-123")) || bytes.Contains(printed, []byte(acuvityKey)) {
					t.Errorf("%s: the result holds the credential: %s", row.id, printed)
				}
			}
		})
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, strings.Repeat(" ", len(b))), nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

// TestVerdictsThatAreUnknownAreErrors reads replies of partners that are neither a pass
// nor a failure.
func TestVerdictsThatAreUnknownAreErrors(t *testing.T) {
	for _, tt := range []struct{ id, response string }{
		{"akto.scan", `{"data":{"guardrailsResult":{"Reason":"x"}}}`},
		{"akto.scan", `{"data":{"guardrailsResult":{"Allowed":"true"}}}`},
		{"alibaba.guard", `{"Code":408,"Message":"no permission","Data":{"Suggestion":"pass"}}`},
		{"alibaba.guard", `{"Code":200,"Data":{"Suggestion":"maybe"}}`},
		{"alibaba.guard", `{"Code":200,"Data":{}}`},
		{"cato.analyze", `{"required_action":null}`},
		{"cato.analyze", `{"analysis_result":{},"required_action":{"action_type":"quarantine_action"}}`},
		{"cato.analyze", `{"analysis_result":{},"required_action":{}}`},
		{"zscaler.guard", `{"errorMsg":"Policy not found"}`},
		{"zscaler.guard", `{"action":"allow"}`},
		{"zscaler.guard", `{"action":""}`},
	} {
		row := partnerRows[slices.IndexFunc(partnerRows, func(r partnerRow) bool { return r.id == tt.id })]
		r, _ := row.against(t, "", func(*http.Request, string) (int, io.Reader, error) { return 200, strings.NewReader(tt.response), nil })
		if resultOf(r) != "error" {
			t.Errorf("%s with %s = %s, want an error", tt.id, tt.response, resultOf(r))
		}
	}
}

func TestErrorsOfPartnersPassUnlessTheyFailClosed(t *testing.T) {
	outage := simulator(func(*http.Request, string) (int, io.Reader, error) { return 0, nil, errors.New("down") })
	for _, tt := range []struct {
		id   string
		more string
		want bool
	}{
		{"lakera.guard", "", true},
		{"lakera.guard", `"failOnError":true`, false},
		{"lasso.classify", "", false},
		{"panw-prisma-airs.intercept", "", false},
		{"lasso.classify", `"failOnError":false`, true},
	} {
		row := partnerRows[slices.IndexFunc(partnerRows, func(r partnerRow) bool { return r.id == tt.id })]
		if r, out := row.against(t, tt.more, outage); r.Error == nil || out.Results[0].Verdict != tt.want {
			t.Errorf("%s %s: verdict of the hook = %t, error %v; want %t and an error", tt.id, tt.more, out.Results[0].Verdict, r.Error, tt.want)
		}
	}
}

func TestCredentialsThatAreMissingAreNamed(t *testing.T) {
	in := text(before, "x")
	r, _ := run(t, checks.Services{Client: simulator(nil)}, in, "lakera.guard", `{}`)
	if r.Error == nil || r.Error.Message != "the credential apiKey of lakera is not set; store the credentials of the partner" {
		t.Errorf("error = %v", r.Error)
	}
}

// Partners that check one text get earlier messages if the check says so.
func TestPartnersGetTheMessagesOfTheirScope(t *testing.T) {
	n := 0
	for _, row := range partnerRows {
		scoped := slices.ContainsFunc(checks.New(checks.Services{}).Definitions(), func(d *guardrail.Definition) bool { return d.ID == row.id && !d.All && !d.Facts })
		if !scoped || row.on == after || row.redacts != "" {
			continue
		}
		n++
		for scope, want := range map[string]bool{"last": false, "all": true} {
			in := text(before, "earlier words", "last words")
			in.Parts[0].Earlier = true
			in.Request = &guardrail.Request{Operation: "chatComplete", Model: "m", TraceID: "tr", Header: http.Header{}}
			sent := ""
			client := simulator(func(_ *http.Request, body string) (int, io.Reader, error) {
				sent += body
				return 200, strings.NewReader(row.passes), nil
			})
			run(t, checks.Services{Client: client}, in, row.id, row.parameters(`"scope":"`+scope+`"`))
			if got := strings.Contains(sent, "earlier") && strings.Contains(sent, "words"); got != want || !strings.Contains(sent, "last") {
				t.Errorf("%s with the scope %s sends %s, want the earlier message: %t", row.id, scope, sent, want)
			}
		}
	}
	if n < 8 {
		t.Errorf("%d partners have a scope, want at least 8", n)
	}
}

// Partners that get each text get at most 50. What was found in one of them stands, and more
// texts than these were not read.
func TestTextsThatAPartnerDoesNotGetAreNotRead(t *testing.T) {
	n := 0
	for _, row := range partnerRows {
		if !strings.HasPrefix(row.id, "azure.") || row.on == after {
			continue
		}
		n++
		for flagged, want := range map[int]string{0: "failed", 49: "failed", -1: "error"} {
			asked := 0
			client := simulator(func(*http.Request, string) (int, io.Reader, error) {
				asked++
				if asked-1 == flagged {
					return 200, strings.NewReader(row.fails), nil
				}
				return 200, strings.NewReader(row.passes), nil
			})
			in := text(before, strings.Split(strings.Repeat("words ", 61)+"words", " ")...)
			in.Request = &guardrail.Request{Operation: "chatComplete", Model: "m", Header: http.Header{}}
			r, _ := run(t, checks.Services{Client: client}, in, row.id, row.parameters(""))
			if got := resultOf(r); got != want || got == "error" && !r.Incomplete || asked > 50 {
				t.Errorf("%s with 62 texts, text %d flagged = %s (%v) after %d requests, want %s", row.id, flagged, got, r.Error, asked, want)
			}
		}
	}
	if n == 0 {
		t.Error("no partner gets each text")
	}
}
