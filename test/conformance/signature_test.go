package conformance

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	accessKey    = "AKIDCONFORMANCE00001"
	accessSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	sessionToken = "session/token+of=conformance"
)

// awsKeys are what a request should be signed with, and for.
type awsKeys struct{ id, secret, session, region, service string }

var ownKeys = awsKeys{accessKey, accessSecret, sessionToken, "eu-west-1", "bedrock"}

var awsSignature = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), Signature=[0-9a-f]{64}$`)

// checkSignature signs the received request again with the signer of AWS's own library,
// and compares the signatures.
func (k awsKeys) checkSignature(t *testing.T, in received) {
	t.Helper()
	sent := in.header.Get("Authorization")
	parts := awsSignature.FindStringSubmatch(sent)
	if parts == nil {
		t.Fatalf("Authorization at the provider = %q, want a signature", sent)
	}
	if parts[1] != k.id || parts[3] != k.region || parts[4] != k.service {
		t.Errorf("signed by %s for %s in %s, want %s for %s in %s", parts[1], parts[4], parts[3], k.id, k.service, k.region)
	}
	when, err := time.Parse("20060102T150405Z", in.header.Get("X-Amz-Date"))
	if err != nil || time.Since(when).Abs() > 5*time.Minute {
		t.Errorf("X-Amz-Date = %q, want now", in.header.Get("X-Amz-Date"))
	}
	host, _ := in.line("Host")
	again, err := http.NewRequest(in.method, "https://"+host+in.uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed := strings.SplitSeq(parts[5], ";")
	for name := range signed {
		if name != "host" && name != "x-amz-security-token" {
			again.Header[http.CanonicalHeaderKey(name)] = in.header[http.CanonicalHeaderKey(name)]
		}
	}
	if got := in.header.Get("X-Amz-Security-Token"); got != k.session || k.session != "" && !strings.Contains(parts[5], "x-amz-security-token") {
		t.Errorf("session token %q, signed headers %s; want %q among them", got, parts[5], k.session)
	}
	sum := sha256.Sum256(in.body)
	keys := aws.Credentials{AccessKeyID: k.id, SecretAccessKey: k.secret, SessionToken: k.session}
	if err := signer.NewSigner().SignHTTP(context.Background(), keys, again, hex.EncodeToString(sum[:]), k.service, k.region, when); err != nil {
		t.Fatal(err)
	}
	if want := again.Header.Get("Authorization"); sent != want {
		t.Errorf("signature\n got %s\nwant %s", sent, want)
	}
}

// cloudA are headers of a request for bedrock with keys.
func cloudA(more ...string) []string {
	return append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-provider", "cloud_a", "x-gateway-cloud-a-access-key-id", accessKey,
		"x-gateway-cloud-a-secret-access-key", accessSecret, "x-gateway-cloud-a-region", "eu-west-1", "x-gateway-cloud-a-session-token", sessionToken}, more...)
}

func TestRequestsForCloudAAreSigned(t *testing.T) {
	const host = "bedrock-runtime.eu-west-1.amazonaws.com"
	titan := says(200, "application/json", `{"embedding":[0.5],"inputTextTokenCount":3}`)
	n := newInternet(t, map[string]behaviour{host: func(w http.ResponseWriter, r *http.Request, in received) {
		if strings.HasSuffix(in.uri, "/invoke") {
			titan(w, r, in)
			return
		}
		speaks(true)(w, r, in)
	}, "runtime.sagemaker.eu-west-1.amazonaws.com": canned})
	g := n.live(t, "")
	const model = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.amazon.nova-lite-v1:0"
	chat := `{"model":"amazon.nova-lite-v1:0","messages":[{"role":"user","content":"h\u00e9"}]}`
	config := node(`"provider":"cloud_a"`, `"cloud_a_access_key_id":"`+accessKey+`"`, `"cloud_a_secret_access_key":"`+accessSecret+`"`,
		`"cloud_a_region":"eu-west-1"`, `"cloud_a_session_token":"`+sessionToken+`"`)
	for _, tt := range []struct {
		of, name, method, path, body string
		header                       []string
		uri                          string
	}{
		{"S-454 S-455 S-425", "by headers", "POST", chatStream.path, chat, cloudA(), "/model/amazon.nova-lite-v1%3A0/converse"},
		{"S-110 S-425", "by a config", "POST", chatStream.path, chat, []string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", config}, "/model/amazon.nova-lite-v1%3A0/converse"},
		{"S-110 S-425", "a stream", "POST", chatStream.path, strings.Replace(chat, "{", `{"stream":true,`, 1), cloudA(), "/model/amazon.nova-lite-v1%3A0/converse-stream"},
		{"S-110 S-425", "a model named by its ARN", "POST", chatStream.path, strings.Replace(chat, "amazon.nova-lite-v1:0", model, 1), cloudA(), "/model/" + strings.ReplaceAll(url.PathEscape(model), ":", "%3A") + "/converse"},
		{"S-110 S-425", "embeddings", "POST", "/v1/embeddings", `{"model":"amazon.titan-embed-text-v2:0","input":"x"}`, cloudA(), "/model/amazon.titan-embed-text-v2%3A0/invoke"},
		{"S-110 S-425", "its own route", "POST", "/model/amazon.nova-lite-v1%3A0/converse", `{"messages":[{"role":"user","content":[{"text":"x"}]}]}`, cloudA(), "/model/amazon.nova-lite-v1%3A0/converse"},
		{"S-110 S-425", "pass-through", "GET", "/v1/guardrail?b=2&a=%2F1&a=0", "", cloudA(), "/guardrail?a=%2F1&a=0&b=2"},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			n.forget()
			g.do(t, tt.method, tt.path, tt.body, tt.header...).wantOK(t)
			in := n.one(t, host)
			if in.uri != tt.uri { // parameters are sent in the order in which they are signed
				t.Errorf("%s was asked for, want %s", in.uri, tt.uri)
			}
			ownKeys.checkSignature(t, in)
			if strings.Contains(in.head, accessSecret) || strings.Contains(string(in.body), accessSecret) {
				t.Errorf("the secret was sent:\n%s", in.head)
			}
		})
	}
	prove(t, "S-110 S-425", "another service of the cloud", func(t *testing.T) {
		n.forget()
		header := cloudA()
		header[3] = "sagemaker"
		g.do(t, "POST", "/v1/endpoints/e-1/invocations", `{"inputs":"x"}`, header...).wantOK(t)
		keys := ownKeys
		keys.service = "sagemaker"
		keys.checkSignature(t, n.one(t, "runtime.sagemaker.eu-west-1.amazonaws.com"))
	})
	prove(t, "S-110 S-454", "half of a pair of keys is refused before anything is sent", func(t *testing.T) {
		n.forget()
		g.do(t, "POST", chatStream.path, chat, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "cloud_a",
			"x-gateway-cloud-a-access-key-id", accessKey, "x-gateway-cloud-a-region", "eu-west-1").refused(t, http.StatusBadRequest)
		n.wantNoRequests(t)
	})
}

const roleSettings = `
version: 1
providers:
  - slug: role
    provider: bedrock
    options: {region: eu-west-1, access_key_id: ` + accessKey + `, secret_access_key: "` + accessSecret + `", role_arn: "arn:aws:iam::123456789012:role/models", external_id: ext-1}
`

func TestRolesOfCloudAAreAssumed(t *testing.T) {
	const host = "bedrock-runtime.eu-west-1.amazonaws.com"
	end := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	n := newInternet(t, map[string]behaviour{host: speaks(false), "sts.eu-west-1.amazonaws.com": says(200, "text/xml",
		`<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIACONFORMANCE00002</AccessKeyId><SecretAccessKey>other-secret</SecretAccessKey><SessionToken>role-session</SessionToken><Expiration>`+end+`</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`)})
	g := n.live(t, roleSettings)
	prove(t, "S-110 S-425", "the request is signed with the keys of the role", func(t *testing.T) {
		for range 2 {
			g.do(t, "POST", chatStream.path, `{"model":"amazon.nova-lite-v1:0","messages":[{"role":"user","content":"x"}]}`, managed("@role")...).wantOK(t)
		}
		sts := n.one(t, "sts.eu-west-1.amazonaws.com") // one for both
		awsKeys{accessKey, accessSecret, "", "eu-west-1", "sts"}.checkSignature(t, sts)
		asked, _ := url.ParseQuery(string(sts.body))
		if asked.Get("Action") != "AssumeRole" || asked.Get("RoleArn") != "arn:aws:iam::123456789012:role/models" || asked.Get("ExternalId") != "ext-1" {
			t.Errorf("STS was asked for %v", asked)
		}
		calls := n.asked(t, host)
		if len(calls) != 2 {
			t.Fatalf("%d calls, want 2", len(calls))
		}
		for _, in := range calls {
			awsKeys{"ASIACONFORMANCE00002", "other-secret", "role-session", "eu-west-1", "bedrock"}.checkSignature(t, in)
		}
	})
}

// newKey makes a key of 2048 bits and writes it in PEM.
func newKey(t *testing.T) (*rsa.PrivateKey, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

var ociSignature = regexp.MustCompile(`^Signature version="1",keyId="([^"]+)",algorithm="rsa-sha256",headers="([^"]+)",signature="([^"]+)"$`)

// checkOCI verifies a signature as Oracle's cloud does.
// https://docs.oracle.com/iaas/Content/API/Concepts/signingrequests.htm
func checkOCI(t *testing.T, in received, key *rsa.PublicKey, id string) {
	t.Helper()
	parts := ociSignature.FindStringSubmatch(in.header.Get("Authorization"))
	if parts == nil || parts[1] != id {
		t.Fatalf("Authorization at the provider = %q, want a signature of %s", in.header.Get("Authorization"), id)
	}
	var lines []string
	for name := range strings.SplitSeq(parts[2], " ") {
		value, _ := in.line(http.CanonicalHeaderKey(name))
		if name == "(request-target)" {
			value = strings.ToLower(in.method) + " " + in.uri
		}
		lines = append(lines, name+": "+value)
	}
	for _, name := range []string{"date", "host", "x-content-sha256", "content-length"} {
		if in.method == "POST" && !strings.Contains(parts[2], name) {
			t.Errorf("%s is not signed: %s", name, parts[2])
		}
	}
	if sum := sha256.Sum256(in.body); in.method == "POST" && in.header.Get("X-Content-Sha256") != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("the digest is not that of the body: %s", in.header.Get("X-Content-Sha256"))
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	seal, err := base64.StdEncoding.DecodeString(parts[3])
	if err == nil {
		err = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], seal)
	}
	if err != nil {
		t.Errorf("the signature does not hold: %v of %q", err, lines)
	}
}

func TestRequestsForAFurtherCloudAreSigned(t *testing.T) {
	const host = "inference.generativeai.eu-frankfurt-1.oci.oraclecloud.com"
	n := newInternet(t, map[string]behaviour{host: speaks(true)})
	key, text := newKey(t)
	g := n.live(t, `
version: 1
providers:
  - slug: oci
    provider: oracle
    options: {region: eu-frankfurt-1, compartment_id: ocid1.compartment.oc1..c, tenancy: ocid1.tenancy.oc1..t, user: ocid1.user.oc1..u, fingerprint: "aa:bb", private_key: `+jsonString(text)+`}
`)
	for _, stream := range []string{"false", "true"} {
		prove(t, "S-569 S-425", "a conversation, streamed: "+stream, func(t *testing.T) {
			n.forget()
			got := g.do(t, "POST", chatStream.path, `{"model":"meta.llama-3.3-70b-instruct","stream":`+stream+`,"messages":[{"role":"user","content":"h\u00e9"}]}`, managed("@oci")...).wantOK(t)
			if !strings.Contains(string(got.body), "Hello") {
				t.Errorf("answer = %s", got.body)
			}
			in := n.one(t, host)
			checkOCI(t, in, &key.PublicKey, "ocid1.tenancy.oc1..t/ocid1.user.oc1..u/aa:bb")
			if in.uri != "/20231130/actions/chat" || in.field(t, "compartmentId") != `"ocid1.compartment.oc1..c"` {
				t.Errorf("the provider was asked for %s with %s", in.uri, in.body)
			}
		})
	}
	prove(t, "S-569", "pass-through", func(t *testing.T) {
		n.forget()
		g.do(t, "GET", "/v1/20231130/models?b=2&a=1", "", managed("@oci")...).wantOK(t)
		checkOCI(t, n.one(t, host), &key.PublicKey, "ocid1.tenancy.oc1..t/ocid1.user.oc1..u/aa:bb")
	})
}

func jsonString(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
