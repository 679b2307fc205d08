package checks_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"modelgate/config"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

// hostCredentials are the credentials of partners that are a host or part of one, with a
// valid value. All others are secrets, names of clients or modes.
var hostCredentials = map[string]string{
	"akto.apiUrl": "https://a.example.com/x", "alibaba.region": "eu-1", "aporia.apiEndpoint": "a.example.com:8443", "azure.customHost": "https://a.example.com",
	"azure.resourceName": "res", "bedrock.awsRegion": "eu-west-1", "cato.apiUrl": "https://[2001:db8::1]/x", "crowdstrike-aidr.baseUrl": "a.example.com/x/",
	"f5-guardrails.calypsoUrl": "http://a.example.com", "javelin.domain": "a.example.com", "pangea.domain": "eu.a.example.com", "promptsecurity.apiDomain": "a.example.com",
	"zscaler.apiUrl": "xn--a-ecp.example.com",
}

// otherCredentials are credentials that a host does not contain.
var otherCredentials = []string{
	"AIRS_API_KEY", "accessKeyId", "accessKeySecret", "apiKey", "apiToken", "application", "awsAccessKeyId", "awsSecretAccessKey", "awsSessionToken", "azureAuthMode", "clientId", "clientSecret", "tenantId",
}

// hostAttacks are values that lead a host, or a path below it, elsewhere.
var hostAttacks = []string{
	"evil.example/?", "evil.example#", "evil.example?", "a@evil.example", "a:b@evil.example", "https://a@evil.example", "https://a.example.com@evil.example/",
	"evil.example\\", "a.example.com\\@evil.example", "evil.example/..", "../x", "..", ".", "a..example.com", ".example.com", "-a.example.com", "example.com.", "evil.example:0/?x=",
	"https://a.example.com/../x", "https://a.example.com/./x", "https://a.example.com?x=", "https://a.example.com/#", "https://a.example.com:", "https://a.example.com:99999", "https://a.example.com:0",
	"ftp://a.example.com", "file:///etc/passwd", "https://", "//evil.example", "https:///x", "https://a.example.com/%2e%2e", "evil.example%2f", "evil.example%00",
	"a b", " a.example.com", "a.example.com ", "a.example.com\t", "a.example.com\r\nX-Evil: 1", "a\x00b", "a\u00a0b", "еvil.example", "ｅvil.example", "evil。example", "１69.254.169.254",
	"https://a.example.com/x y", "https://[::1", "https://[fe80::1%25eth0]", "{apiKey}", strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 200) + "example",
}

// labelAttacks are valid as hosts or addresses, but not as one part of a host name.
var labelAttacks = []string{"evil.example", "evil.example/", "169.254.169.254", "a.b", "https://evil.example", "evil:443"}

// partnerDefinitions returns the checks of partners.
func partnerDefinitions() []*guardrail.Definition {
	return slices.DeleteFunc(checks.New(checks.Services{}).Definitions(), func(d *guardrail.Definition) bool { return d.Family() == "default" || d.Family() == "gateway" })
}

// credentialsOf returns valid credentials of a partner, without those in skip.
func credentialsOf(d *guardrail.Definition, skip ...string) map[string]string {
	own := map[string]string{}
	for _, name := range d.Credentials {
		if slices.Contains(skip, name) {
			continue
		}
		own[name] = "k-123"
		if host := hostCredentials[d.Family()+"."+name]; host != "" {
			own[name] = host
		}
	}
	if d.Family() == "acuvity" {
		own["apiKey"] = acuvityKey
	}
	delete(own, "azureAuthMode")
	return own
}

// faultsOf compiles a check of a partner with its row's parameters.
func faultsOf(t *testing.T, row partnerRow, own map[string]string) (*guardrail.Hook, []config.FieldError) {
	t.Helper()
	credentials, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	if row.credentials = ""; len(own) > 0 {
		row.credentials = `"credentials":` + string(credentials)
	}
	return checks.New(checks.Services{}).CompileHook("$", config.Hook{ID: "h", Checks: []config.Check{{ID: row.id, Parameters: object(t, row.parameters(""))}}}, row.on)
}

func rowOf(id string) partnerRow {
	return partnerRows[slices.IndexFunc(partnerRows, func(r partnerRow) bool { return r.id == id })]
}

func TestCredentialsOfPartnersAreHostsOrNot(t *testing.T) {
	for _, d := range partnerDefinitions() {
		for _, name := range d.Credentials {
			_, host := hostCredentials[d.Family()+"."+name]
			if host == slices.Contains(otherCredentials, name) {
				t.Errorf("%s: list the credential %s in hostCredentials or in otherCredentials", d.ID, name)
			}
		}
	}
}

// TestPartnersAreSentWhereTheirCredentialsSay tries each credential that is part of a
// host, of every check, with each attack: the check is refused by the credential's name
// before anything is sent.
func TestPartnersAreSentWhereTheirCredentialsSay(t *testing.T) {
	tried := 0
	for _, d := range partnerDefinitions() {
		row := rowOf(d.ID)
		if _, faults := faultsOf(t, row, credentialsOf(d)); len(faults) > 0 {
			t.Errorf("%s: valid credentials are refused: %v", d.ID, faults)
		}
		for _, name := range d.Credentials {
			valid, ok := hostCredentials[d.Family()+"."+name]
			if !ok {
				continue
			}
			attacks := hostAttacks
			if !strings.ContainsAny(valid, ".:") {
				attacks = slices.Concat(hostAttacks, labelAttacks)
			}
			for _, attack := range attacks {
				tried++
				own := credentialsOf(d)
				own[name] = attack
				_, faults := faultsOf(t, row, own)
				if len(faults) != 1 || !strings.HasSuffix(faults[0].Path, "parameters.credentials."+name) {
					t.Errorf("%s with %s %q: faults %v, want one of %s", d.ID, name, attack, faults, name)
				}
			}
		}
	}
	if want := 14 * len(hostAttacks); tried < want {
		t.Errorf("%d attacks were tried, want at least %d", tried, want)
	}
}

// TestHeldCredentialsReachNoOtherHost holds for credentials of the gateway, which are not
// part of the check and so cannot be refused with it.
func TestHeldCredentialsReachNoOtherHost(t *testing.T) {
	for _, d := range partnerDefinitions() {
		for _, name := range d.Credentials {
			if _, ok := hostCredentials[d.Family()+"."+name]; !ok {
				continue
			}
			for _, attack := range hostAttacks {
				held := map[string]secret.String{}
				for name, value := range credentialsOf(d) {
					held[name] = secret.New(value)
				}
				held[name] = secret.New(attack)
				row := rowOf(d.ID)
				row.credentials = ""
				in := text(row.on, "my secret text")
				in.Request = &guardrail.Request{Operation: "chatComplete", StoredCredentials: true, Header: http.Header{}}
				r, _ := run(t, checks.Services{
					Credentials: func(*guardrail.Request, string, bool) (map[string]secret.String, error) { return held, nil },
					Client: simulator(func(req *http.Request, _ string) (int, io.Reader, error) {
						t.Errorf("%s with %s %q: sent to %s", d.ID, name, attack, req.URL)
						return 200, strings.NewReader("{}"), nil
					}),
				}, in, row.id, row.parameters(""))
				if r.Error == nil || !strings.Contains(r.Error.Message, name) {
					t.Errorf("%s with %s %q: error = %v", d.ID, name, attack, r.Error)
				}
			}
		}
	}
}

// TestKeysWithAnAddressAreCheckedAsOne tries the attacks inside a key that holds the
// address of its service.
func TestKeysWithAnAddressAreCheckedAsOne(t *testing.T) {
	for _, attack := range hostAttacks {
		claims, _ := json.Marshal(map[string]any{"opaque": map[string]string{"apex-url": attack}})
		_, faults := faultsOf(t, rowOf("acuvity.scan"), map[string]string{"apiKey": "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"})
		if len(faults) != 1 || !strings.HasSuffix(faults[0].Path, "parameters.credentials.apiKey") || strings.Contains(fmt.Sprint(faults), "e30.") {
			t.Errorf("%q: faults %v, want one of apiKey", attack, faults)
		}
	}
}

// TestNoParameterIsPartOfAHost gives every check a parameter of the name of each
// credential that is part of a host: the author of a check does not choose where the
// credentials of others go.
func TestNoParameterIsPartOfAHost(t *testing.T) {
	for _, d := range partnerDefinitions() {
		for _, name := range d.Credentials {
			if _, ok := hostCredentials[d.Family()+"."+name]; !ok {
				continue
			}
			row := rowOf(d.ID)
			row.params = strings.TrimPrefix(row.params+fmt.Sprintf(`,%q:"evil.example"`, name), ",")
			_, faults := checks.New(checks.Services{}).CompileHook("$", config.Hook{ID: "h", Checks: []config.Check{{ID: row.id, Parameters: object(t, row.parameters(""))}}}, row.on)
			if len(faults) != 1 || !strings.HasSuffix(faults[0].Path, "parameters."+name) || !strings.Contains(faults[0].Message, "is not a parameter") {
				t.Errorf("%s with the parameter %s: faults %v", d.ID, name, faults)
			}
		}
	}
}

// TestParametersStayInTheirPartOfAnAddress sends every check with each text parameter set
// to attacks: the host and the number of segments stay, and no query appears.
func TestParametersStayInTheirPartOfAnAddress(t *testing.T) {
	for _, d := range partnerDefinitions() {
		row := rowOf(d.ID)
		want := sentURL(t, row, "", "")
		for _, p := range d.AllParams() {
			if p.Type != guardrail.String || len(p.Enum) > 0 {
				continue
			}
			for _, attack := range []string{"../../x", "..", ".", "a/b", "a?b=c", "a#b", "a&b=c", "a@evil.example", "//evil.example", "a%2fb", "a\r\nb", "\\evil"} {
				got := sentURL(t, row, p.Name, attack)
				if got == nil {
					continue // refused
				}
				if got.Scheme != want.Scheme || got.Host != want.Host || got.Fragment != "" || len(got.Query()) != len(want.Query()) ||
					strings.Count(got.EscapedPath(), "/") != strings.Count(want.EscapedPath(), "/") || slices.Contains(strings.Split(got.Path, "/"), "..") && attack == ".." {
					t.Errorf("%s with %s %q is sent to %s, want the form of %s", d.ID, p.Name, attack, got, want)
				}
			}
		}
	}
}

// sentURL returns the address of the request of a check with a parameter, nil if it is
// refused.
func sentURL(t *testing.T, row partnerRow, name, value string) (sent *url.URL) {
	t.Helper()
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(row.parameters("")), &members); err != nil {
		t.Fatal(err)
	}
	if name != "" {
		members[name], _ = json.Marshal(value)
	}
	written, _ := json.Marshal(members)
	client := simulator(func(req *http.Request, _ string) (int, io.Reader, error) {
		sent = req.URL
		return 0, nil, errors.New("seen")
	})
	in := text(row.on, "my secret text")
	h, faults := checks.New(checks.Services{Client: client}).CompileHook("$", config.Hook{ID: "h", Checks: []config.Check{{ID: row.id, Parameters: object(t, string(written))}}}, row.on)
	if len(faults) > 0 {
		return nil
	}
	in.Request = &guardrail.Request{Operation: "chatComplete", Model: "m", TraceID: "tr", Header: http.Header{}}
	guardrail.Run(t.Context(), []*guardrail.Hook{h}, in, nil)
	if sent == nil {
		t.Errorf("%s with %s %q sends nothing", row.id, name, value)
		return &url.URL{}
	}
	return sent
}

// TestHostsFromCredentialsPassTheEgressPolicy refuses every host that a credential names.
func TestHostsFromCredentialsPassTheEgressPolicy(t *testing.T) {
	for _, d := range partnerDefinitions() {
		if d.Family() == "acuvity" || slices.ContainsFunc(d.Credentials, func(name string) bool { return hostCredentials[d.Family()+"."+name] != "" }) {
			own, _ := json.Marshal(credentialsOf(d))
			row := rowOf(d.ID)
			row.credentials = `"credentials":` + string(own)
			in := text(row.on, "my secret text")
			in.Request = &guardrail.Request{Operation: "chatComplete", Header: http.Header{}, Egress: &egress.Policies{Key: []*egress.Policy{{CustomHosts: egress.Hosts{}}}}}
			r, _ := run(t, checks.Services{Client: simulator(func(req *http.Request, _ string) (int, io.Reader, error) {
				t.Errorf("%s: sent to %s", d.ID, req.URL)
				return 200, strings.NewReader("{}"), nil
			})}, in, row.id, row.parameters(""))
			if r.Error == nil || !strings.Contains(r.Error.Message, "egress policy") {
				t.Errorf("%s: error = %v", d.ID, r.Error)
			}
		}
	}
}
