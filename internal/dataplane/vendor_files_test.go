package dataplane_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

const fileSettings = `version: 1
providers:
  - {slug: oa, provider: openai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: ant, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: gem, provider: google, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`

func newFileVendors(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.New(t, gatewaytest.Options{Settings: fileSettings, Simulator: recorder.Options{Record: 100}})
}

// A file of an Anthropic client goes to Anthropic, is found and deleted there,
// and its refused download keeps the provider's words.
func TestFilesOfMessagesClientsAreKeptByTheirProvider(t *testing.T) {
	t.Parallel()
	g := newFileVendors(t)
	content := strings.Repeat("item,value\n", 100_000)
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="data.csv"`}, "Content-Type": {"text/csv"}})
	if err != nil {
		t.Fatal(err)
	}
	part.Write([]byte(content))
	w.Close()
	beta := []string{"Anthropic-Version", "2023-06-01", "Anthropic-Beta", "files-api-2025-04-14"}
	res := sendTo(t, g, http.MethodPost, "/v1/files?beta=true", form.String(), append(beta, "Content-Type", w.FormDataContentType())...)
	up := res.JSON(t)
	if res.Status != 200 || up["filename"] != "data.csv" || up["mime_type"] != "text/csv" || up["size_bytes"] != float64(len(content)) || up["type"] != "file" {
		t.Fatalf("upload: %d %s", res.Status, res.Body)
	}
	sent := g.Sim.Requests()[0]
	if sent.Header.Get("Anthropic-Beta") != "files-api-2025-04-14" || sent.URI != "/v1/files?beta=true" {
		t.Errorf("sent %s with %v", sent.URI, sent.Header)
	}
	path := "/v1/files/" + up["id"].(string)
	if res := sendTo(t, g, http.MethodGet, path, "", beta...); res.Status != 200 || res.JSON(t)["id"] != up["id"] {
		t.Errorf("file: %d %s", res.Status, res.Body)
	}
	if res := sendTo(t, g, http.MethodGet, "/v1/files?limit=1", "", beta...); res.Status != 200 || res.JSON(t)["first_id"] != up["id"] {
		t.Errorf("list: %d %s", res.Status, res.Body)
	}
	if res := sendTo(t, g, http.MethodGet, path+"/content", "", beta...); res.Status != 400 || !strings.Contains(string(res.Body), `"error_code":"file_not_downloadable"`) {
		t.Errorf("content: %d %s", res.Status, res.Body)
	}
	if res := sendTo(t, g, http.MethodGet, path, "", "x-gateway-provider", "@oa"); res.Status != 404 {
		t.Errorf("another provider: %d %s", res.Status, res.Body)
	}
	if res := sendTo(t, g, http.MethodDelete, path, "", beta...); res.Status != 200 || res.JSON(t)["type"] != "file_deleted" {
		t.Errorf("delete: %d %s", res.Status, res.Body)
	}
	res = sendTo(t, g, http.MethodGet, path, "", beta...)
	if fault, _ := res.JSON(t)["error"].(map[string]any); res.Status != 404 || fault["type"] != "not_found_error" {
		t.Errorf("after delete: %d %s", res.Status, res.Body)
	}
}

func TestGeneratedFilesPassThrough(t *testing.T) {
	t.Parallel()
	g := newFileVendors(t)
	content := "\x00\x01\xff binary \r\n"
	res := sendTo(t, g, http.MethodPost, "/upload/v1beta/files", content, "X-Goog-Upload-Protocol", "raw", "Content-Type", "image/png", simulator.HeaderFault, "generated")
	file, _ := res.JSON(t)["file"].(map[string]any)
	if res.Status != 200 || file["source"] != "GENERATED" {
		t.Fatalf("upload: %d %s", res.Status, res.Body)
	}
	res = sendTo(t, g, http.MethodGet, "/v1beta/"+file["name"].(string)+":download?alt=media", "")
	if res.Status != 200 || string(res.Body) != content || res.Header.Get("Content-Type") != "image/png" {
		t.Errorf("download: %d %v %q", res.Status, res.Header, res.Body)
	}
}

// Clients send the content of a file to an address from the provider, with
// their key: it is the gateway's.
func TestGeminiFilesAreUploadedThroughTheGateway(t *testing.T) {
	t.Parallel()
	g := newFileVendors(t)
	const unit = 8 << 20
	content := strings.Repeat("0123456789abcdef", unit/16) + "rest"
	start := []string{"X-Goog-Upload-Protocol", "resumable", "X-Goog-Upload-Command", "start",
		"X-Goog-Upload-Header-Content-Length", strconv.Itoa(len(content)), "X-Goog-Upload-Header-Content-Type", "video/mp4"}
	res := sendTo(t, g, http.MethodPost, "/upload/v1beta/files", `{"file":{"displayName":"clip"}}`, start...)
	address := res.Header.Get("X-Goog-Upload-Url")
	if res.Status != 200 || !strings.HasPrefix(address, g.Root+"/upload/v1beta/files?upload_id=") || res.Header.Get("X-Goog-Upload-Status") != "active" {
		t.Fatalf("start: %d %v %s", res.Status, res.Header, res.Body)
	}
	path := strings.TrimPrefix(address, g.Root)
	step := func(command, offset, body string) gatewaytest.Response {
		t.Helper()
		return sendTo(t, g, http.MethodPost, path, body, "X-Goog-Upload-Command", command, "X-Goog-Upload-Offset", offset, "Content-Type", "application/octet-stream")
	}
	if res = step("upload", "0", content[:unit]); res.Header.Get("X-Goog-Upload-Size-Received") != strconv.Itoa(unit) {
		t.Fatalf("chunk: %d %v %s", res.Status, res.Header, res.Body)
	}
	res = step("upload, finalize", strconv.Itoa(unit), content[unit:])
	var up struct {
		File struct{ Name, State, MimeType, SHA256Hash string }
	}
	if err := json.Unmarshal(res.Body, &up); err != nil || res.Status != 200 || res.Header.Get("X-Goog-Upload-Status") != "final" {
		t.Fatalf("last chunk: %d %v %s", res.Status, res.Header, res.Body)
	}
	sum := sha256.Sum256([]byte(content))
	if up.File.State != "ACTIVE" || up.File.MimeType != "video/mp4" || up.File.SHA256Hash != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("file = %+v", up.File)
	}
	if res = sendTo(t, g, http.MethodGet, "/v1beta/files", ""); res.Status != 200 || !strings.Contains(string(res.Body), `"`+up.File.Name+`"`) {
		t.Errorf("list: %d %s", res.Status, res.Body)
	}
	if res = sendTo(t, g, http.MethodGet, "/v1beta/"+up.File.Name, ""); res.Status != 200 || res.JSON(t)["name"] != up.File.Name {
		t.Errorf("file: %d %s", res.Status, res.Body)
	}
	if res = sendTo(t, g, http.MethodDelete, "/v1beta/"+up.File.Name, ""); res.Status != 200 {
		t.Errorf("delete: %d %s", res.Status, res.Body)
	}
	res = sendTo(t, g, http.MethodGet, "/v1beta/"+up.File.Name, "")
	if fault, _ := res.JSON(t)["error"].(map[string]any); res.Status != 404 || fault["status"] != "NOT_FOUND" {
		t.Errorf("after delete: %d %s", res.Status, res.Body)
	}
	res = sendTo(t, g, http.MethodPost, "/upload/v1beta/files", `{"file":{}}`, append(start, "Host", "evil.example", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https")...)
	if address := res.Header.Get("X-Goog-Upload-Url"); !strings.HasPrefix(address, g.Root+"/upload/") {
		t.Errorf("with forged headers the address is %q", address)
	}
}

// Google's addresses are credentials of their own: its Python library sends no
// key with the content.
func TestContentIsSentToAnUploadAddressWithoutAKey(t *testing.T) {
	t.Parallel()
	const master = "a master key of a test, long enough"
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master, Simulator: recorder.Options{Record: 100},
		Settings: fileSettings + `  - {slug: gem2, provider: google, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`})
	start := []string{"x-gateway-provider", "@gem2", "X-Goog-Upload-Protocol", "resumable", "X-Goog-Upload-Command", "start"}
	keyless := []string{"Authorization", "", "X-Goog-Upload-Command", "upload, finalize", "X-Goog-Upload-Offset", "0"}
	begin := func() string {
		t.Helper()
		res := sendTo(t, g, http.MethodPost, "/upload/v1/files", "", start...)
		return strings.TrimPrefix(res.Header.Get("X-Goog-Upload-Url"), g.Root)
	}
	path := begin()
	if strings.Contains(path, gatewaytest.Key) {
		t.Fatalf("the address %q contains the key", path)
	}
	plain, sealed, _ := strings.Cut(path, "&gateway_grant=")
	if res := sendTo(t, g, http.MethodPost, plain, "content", keyless...); res.Status != 401 {
		t.Errorf("without the grant: %d %s", res.Status, res.Body)
	}
	if res := sendTo(t, g, http.MethodPost, plain+"x&gateway_grant="+sealed, "content", keyless...); res.Status != 401 {
		t.Errorf("with the grant of another address: %d %s", res.Status, res.Body)
	}
	if res := sendTo(t, g, http.MethodPost, path, "content", append(slices.Clone(keyless), "Authorization", "Bearer wrong")...); res.Status != 401 {
		t.Errorf("with a wrong key: %d %s", res.Status, res.Body)
	}
	if res := sendTo(t, g, http.MethodGet, "/v1beta/files?"+path[strings.Index(path, "?")+1:], "", "Authorization", ""); res.Status == 200 {
		t.Errorf("the grant lists files: %s", res.Body)
	}
	box, err := secret.NewBox(secret.New(master))
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(plain, "?")
	for _, tt := range []struct {
		until time.Duration
		key   string
		want  int
	}{{-time.Second, gatewaytest.Key, 401}, {time.Hour, "unknown", 401}} {
		grant, err := json.Marshal(map[string]any{"key": tt.key, "provider": "gem2", "query": query, "until": time.Now().Add(tt.until)})
		if err != nil {
			t.Fatal(err)
		}
		made := plain + "&gateway_grant=" + url.QueryEscape(box.Seal(secret.New(string(grant))))
		if res := sendTo(t, g, http.MethodPost, made, "content", keyless...); res.Status != tt.want {
			t.Errorf("%s: %d %s", grant, res.Status, res.Body)
		}
	}
	res := sendTo(t, g, http.MethodPost, path+"&more=1", "content", keyless...)
	if file, _ := res.JSON(t)["file"].(map[string]any); res.Status != 200 || file["sizeBytes"] != "7" {
		t.Errorf("content: %d %s", res.Status, res.Body)
	}
	for _, sent := range g.Sim.Requests() {
		if strings.Contains(sent.URI, "gateway_grant") {
			t.Errorf("the grant was sent to the provider: %s", sent.URI)
		}
	}
	if last := g.Sim.Requests()[len(g.Sim.Requests())-1]; last.URI != "/v1"+plain+"&more=1" {
		t.Errorf("sent to %s", last.URI)
	}
}

// Google's JavaScript library uses version v1 of the API.
func TestPathsOfGooglesVersionOneBelongToItsClients(t *testing.T) {
	t.Parallel()
	g, seen := newVendors(t, vendorSettings)
	of := []string{"X-Goog-Api-Client", "google-genai-sdk/3.1.0 gl-node/v24"}
	for _, tt := range []struct{ method, path, want string }{
		{"GET", "/v1/files?pageSize=1", "GET /v1/gem/v1/files?pageSize=1"},
		{"GET", "/v1/files/abc", "GET /v1/gem/v1/files/abc"},
		{"DELETE", "/v1/files/abc", "DELETE /v1/gem/v1/files/abc"},
		{"POST", "/upload/v1/files", "POST /v1/gem/upload/v1/files"},
	} {
		if res := sendTo(t, g, tt.method, tt.path, "", of...); res.Status != 200 || !slices.Equal(seen.taken(), []string{tt.want}) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, res.Status, res.Body)
		}
	}
	if res := sendTo(t, g, "GET", "/v1/models/@gem/gemini-2.5-pro", "", of...); res.Status != 200 || res.JSON(t)["name"] != "models/@gem/gemini-2.5-pro" {
		t.Errorf("model: %d %s", res.Status, res.Body)
	}
	if res := sendTo(t, g, "GET", "/v1/models", "", of...); res.Status != 200 || res.JSON(t)["models"] == nil {
		t.Errorf("models: %d %s", res.Status, res.Body)
	}
	if res := sendTo(t, g, "GET", "/v1/files", "", append(of, "x-gateway-provider", "@vert")...); res.Status != 501 || !strings.Contains(string(res.Body), "UNIMPLEMENTED") {
		t.Errorf("another provider: %d %s", res.Status, res.Body)
	}
	seen.taken()
	if res := sendTo(t, g, "GET", "/v1/other", "", append(of, "x-gateway-provider", "@oa")...); res.Status != 200 || !slices.Equal(seen.taken(), []string{"GET /v1/oa/other"}) {
		t.Errorf("another path: %d %s", res.Status, res.Body)
	}
}

// A provider's list of models is requested in the version of a messages client, which
// no provider of another vendor receives.
func TestModelsAreListedInTheClientsVersion(t *testing.T) {
	t.Parallel()
	g := newFileVendors(t)
	for provider, want := range map[string][2]string{"@ant": {"2024-10-22", "models-2026"}, "@oa": {}} {
		res := sendTo(t, g, http.MethodGet, "/v1/models?limit=7", "", "x-gateway-provider", provider, "anthropic-version", "2024-10-22", "anthropic-beta", "models-2026")
		all := g.Sim.Requests()
		if len(all) == 0 {
			t.Fatalf("%s: nothing was sent: %d %s", provider, res.Status, res.Body)
		}
		h := all[len(all)-1].Header
		if got := [2]string{h.Get("Anthropic-Version"), h.Get("Anthropic-Beta")}; got != want {
			t.Errorf("%s got version and beta %q, want %q", provider, got, want)
		}
	}
}
