package openapi_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/provider/toolserver/openapi"
)

// document returns a document of a version with these paths and schemas.
func document(version, paths, schemas string) string {
	return `{"openapi":"` + version + `","info":{"title":"T","version":"1"},"paths":{` + paths + `},"components":{"schemas":{` + schemas + `}}}`
}

func mustParse(t testing.TB, text string) *openapi.Document {
	t.Helper()
	d, err := openapi.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// definition returns the definition of the only tool of a document, as a value.
func definition(t testing.TB, text string) (v map[string]any) {
	t.Helper()
	d := mustParse(t, text)
	if len(d.Tools) != 1 {
		t.Fatalf("%d tools, left out: %q", len(d.Tools), d.LeftOut)
	}
	if err := json.Unmarshal(d.Tools[0].Definition, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// at returns the part of a value at names, as JSON.
func at(v any, names ...string) string {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	out, _ := json.Marshal(v)
	return string(out)
}

func TestOperationBecomesATool(t *testing.T) {
	got := definition(t, document("3.0.3", `"/users/{user}/notes":{
		"parameters":[{"name":"user","in":"path","required":true,"description":"Who","schema":{"type":"string"}},{"name":"page","in":"query","schema":{"type":"string"}}],
		"put":{"operationId":"notes.put now!","summary":"Puts a\nnote","description":"For a user.","deprecated":true,
			"parameters":[{"name":"page","in":"query","required":true,"schema":{"type":"integer","minimum":1,"exclusiveMinimum":true}},
				{"name":"X-Tenant","in":"header","schema":{"type":"string","nullable":true,"enum":["a"]}},
				{"name":"Authorization","in":"header","required":true},{"name":"c","in":"cookie"}],
			"requestBody":{"required":true,"content":{"application/vnd.notes+json":{"schema":{"$ref":"#/components/schemas/Note"}}}},
			"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Note"}}}},"404":{}}}}`,
		`"Note":{"type":"object","required":["id","text","secret"],"properties":{"id":{"type":"string","readOnly":true},"text":{"type":"string"},"secret":{"type":"string","writeOnly":true}},"example":{"a":1},"x-internal":true}`))
	for _, tt := range []struct {
		want  string
		names []string
	}{
		{`"notes.put_now"`, []string{"name"}},
		{`"Puts a note"`, []string{"title"}},
		{`"Puts a\nnote\n\nFor a user. (deprecated)"`, []string{"description"}},
		{`{"idempotentHint":true}`, []string{"annotations"}},
		{`{"modelgate/operation":"PUT /users/{user}/notes"}`, []string{"_meta"}},
		{`["path","query","body"]`, []string{"inputSchema", "required"}},
		{`{"additionalProperties":false,"properties":{"user":{"description":"Who","type":"string"}},"required":["user"],"type":"object"}`, []string{"inputSchema", "properties", "path"}},
		{`{"additionalProperties":false,"properties":{"page":{"exclusiveMinimum":1,"type":"integer"}},"required":["page"],"type":"object"}`, []string{"inputSchema", "properties", "query"}},
		{`{"X-Tenant":{"enum":["a",null],"type":["string","null"]}}`, []string{"inputSchema", "properties", "header", "properties"}},
		{`{"properties":{"secret":{"type":"string"},"text":{"type":"string"}},"required":["text","secret"],"type":"object"}`, []string{"inputSchema", "properties", "body"}},
		{`{"properties":{"id":{"type":"string"},"text":{"type":"string"}},"required":["id","text"],"type":"object"}`, []string{"outputSchema"}},
	} {
		if got := at(got, tt.names...); got != tt.want {
			t.Errorf("%v is %s, want %s", tt.names, got, tt.want)
		}
	}
}

func TestNamesAreUniqueAndDoNotDependOnOtherOperations(t *testing.T) {
	same := `"/a":{"get":{"operationId":"x y"}},"/b":{"get":{"operationId":"x/y"}},"/c/{id}":{"post":{"parameters":[{"name":"id","in":"path"}]}}`
	names := func(paths string) (list []string) {
		for _, tool := range mustParse(t, document("3.1.0", paths, "")).Tools {
			list = append(list, tool.Name)
		}
		return list
	}
	got := names(same)
	if len(got) != 3 || got[0] == got[1] || !strings.HasPrefix(got[0], "x_y_") || got[2] != "post_c_id" {
		t.Errorf("names %q", got)
	}
	if with := names(`"/0":{"get":{"operationId":"x_y"},"head":{"operationId":"x:y"}},` + same); with[0] != "x_y" || !slices.Equal(with[2:], got) {
		t.Errorf("with another operation %q, without %q", with, got)
	}
	for range 10 {
		if again := names(same); !slices.Equal(again, got) {
			t.Fatalf("names %q, then %q", got, again)
		}
	}
}

func TestSchemasAreBounded(t *testing.T) {
	body := `"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/S0"}}}}}}`
	cycle := definition(t, document("3.1.0", body, `"S0":{"type":"object","properties":{"next":{"$ref":"#/components/schemas/S0"},"list":{"type":"array","items":{"$ref":"#/components/schemas/S0"}}}}`))
	if got := at(cycle, "inputSchema", "properties", "body"); got != `{"properties":{"list":{"items":{"type":"object"},"type":"array"},"next":{"type":"object"}},"type":"object"}` {
		t.Errorf("a schema that contains itself is %s", got)
	}
	var wide, deep strings.Builder
	for i := range 30 { // two of the next in each: a thousand million in all
		fmt.Fprintf(&wide, `"S%d":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/S%d"},"b":{"$ref":"#/components/schemas/S%d"}}},`, i, i+1, i+1)
	}
	wide.WriteString(`"S30":{"type":"string"}`)
	if got := mustParse(t, document("3.1.0", body, wide.String())).Tools[0].Definition; len(got) > toolserver.MaxDefinition || !strings.Contains(string(got), `"b":`) {
		t.Errorf("a wide schema has %d bytes", len(got))
	}
	deep.WriteString(strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000))
	if got := mustParse(t, document("3.1.0", body, `"S0":`+deep.String())).Tools[0].Definition; len(got) > 2000 {
		t.Errorf("a deep schema has %d bytes", len(got))
	}
}

func TestHostileDocumentsAreRefused(t *testing.T) {
	operations := func(n int, schema string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"/%d":{"post":{"requestBody":{"content":{"application/json":{"schema":%s}}}}}`, i, schema)
		}
		return b.String()[1:]
	}
	var hidden, references strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&hidden, `"%d":{"readOnly":true},`, i)
	}
	for i := range 5000 {
		fmt.Fprintf(&references, `,"/%d":{"$ref":"#/components/schemas/S0"}`, i)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"not JSON":        {`openapi: 3.1.0`, "not a JSON object"},
		"two values":      {`{"openapi":"3.1.0"}{}`, "after its end"},
		"another version": {`{"openapi":"4.0.0"}`, "version 3.0 or 3.1"},
		"Swagger":         {`{"swagger":"2.0"}`, "Swagger 2.0"},
		"no operations":   {`{"openapi":"3.1.0"}`, "no operations"},
		"too many":        {document("3.1.0", operations(2001, `true`), ""), "at most 2000"},
		"too long":        {`{"openapi":"3.1.0","x":"` + strings.Repeat("x", openapi.MaxDocument) + `"}`, "at most"},
		"large text again and again": {document("3.1.0", operations(1500, `{"$ref":"#/components/schemas/S0"}`), `"S0":{"enum":["`+strings.Repeat("x", 2<<20)+`"]}`),
			"too large once its references are resolved"},
		"hidden properties again and again": {document("3.1.0", operations(300, `{"$ref":"#/components/schemas/S0"}`), `"S0":{"properties":{`+hidden.String()+`"a":{}}}`),
			"too large once its references are resolved"},
		"types of bodies again and again": {document("3.1.0", strings.ReplaceAll(operations(300, `1`), `{"requestBody":{"content":{"application/json":{"schema":1}}}}`,
			`{"requestBody":{"$ref":"#/components/schemas/S0"}}`), `"S0":{"content":{`+hidden.String()+`"a":{}}}`), "too large once its references are resolved"},
		"long references again and again": {document("3.1.0", references.String()[1:],
			`"S0":{"$ref":"#/components/schemas/S1`+strings.Repeat("/", 2000)+`"},"S1":`+strings.Repeat(`{"":`, 2000)+`{}`+strings.Repeat("}", 2000)),
			"too large once its references are resolved"},
		"two members":          {`{"openapi":"3.1.0","paths":{"/a":{"get":{}},"/a":{"post":{}}}}`, `two members "/a"`},
		"two members, escaped": {`{"openapi":"3.1.0","paths":{"/a":[{"get":1,"b":{},"\u0067et":2}]}}`, `two members "get"`},
	} {
		if _, err := openapi.Parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestOperationsThatCannotBeToolsAreNamed(t *testing.T) {
	for name, tt := range map[string]struct{ paths, want string }{
		"network reference":   {`"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"https://evil.example.com/s.json"}}}}}}`, "leads out of the document"},
		"file reference":      {`"/a":{"$ref":"other.json"}`, "leads out of the document"},
		"missing reference":   {`"/a":{"get":{"parameters":[{"$ref":"#/components/parameters/none"}]}}`, "leads nowhere"},
		"circular reference":  {`"/a":{"$ref":"#/paths/~1a"}`, "from one to the next"},
		"other server":        {`"/a":{"get":{"servers":[{"url":"https://evil.example.com"}]}}`, "servers of its own"},
		"server of a path":    {`"/a":{"servers":[{"url":"https://evil.example.com"}],"get":{}}`, "servers of its own"},
		"cookie":              {`"/a":{"get":{"parameters":[{"name":"c","in":"cookie","required":true}]}}`, "cookies are not sent"},
		"style":               {`"/a":{"get":{"parameters":[{"name":"q","in":"query","required":true,"style":"pipeDelimited"}]}}`, `style "pipeDelimited" is not supported`},
		"style of a path":     {`"/{a}":{"get":{"parameters":[{"name":"a","in":"path","style":"matrix"}]}}`, `style "matrix" is not supported`},
		"files":               {`"/a":{"post":{"requestBody":{"required":true,"content":{"multipart/form-data":{}}}}}`, "files are not sent"},
		"header with a break": {`"/a":{"get":{"parameters":[{"name":"X\r\nY","in":"header","required":true}]}}`, "must have a name"},
		"no header":           {`"/a":{"get":{"parameters":[{"name":"X Y","in":"header","required":true}]}}`, "not the name of a header"},
		"path climbs":         {`"/a/../b":{"get":{}}`, "segments of dots"},
		"path with a query":   {`"/a?b=c":{"get":{}}`, "no query"},
		"path of a host":      {`"//evil.example.com/a":{"get":{}}`, "must begin with /"},
		"relative path":       {`"@evil.example.com":{"get":{}}`, "must begin with /"},
		"unknown parameter":   {`"/a/{b}":{"get":{}}`, "which it does not have"},
		"unused parameter":    {`"/a":{"get":{"parameters":[{"name":"b","in":"path"}]}}`, "does not name the parameter"},
		"options":             {`"/a":{"options":{}}`, "not one of tools"},
	} {
		d, err := openapi.Parse([]byte(document("3.1.0", tt.paths+`,"/ok":{"get":{}}`, "")))
		if err != nil || len(d.Tools) != 1 || len(d.LeftOut) != 1 || !strings.Contains(d.LeftOut[0], tt.want) {
			t.Errorf("%s: %v, %+v, want %q", name, err, d, tt.want)
		}
	}
	d := mustParse(t, document("3.1.0", `"/ok":{"get":{"parameters":[{"name":"Host","in":"header","required":true},{"name":"q","in":"query","style":"spaceDelimited"}]}}`, ""))
	if len(d.Tools) != 1 || len(d.LeftOut) != 2 || !strings.Contains(d.LeftOut[0], "arguments do not set this header") || !strings.Contains(d.LeftOut[1], "the tool is without it") {
		t.Errorf("left out %q", d.LeftOut)
	}
}

func TestStylesOfParameters(t *testing.T) {
	base, _ := url.Parse("https://api.example.com/v1/")
	for _, tt := range []struct{ in, extra, value, want string }{
		{"query", ``, `"a b&c=d+é"`, "/v1/p?p=a%20b%26c%3Dd%2B%C3%A9"},
		{"query", ``, `["a","b,c"]`, "/v1/p?p=a&p=b%2Cc"},
		{"query", `,"explode":false`, `["a","b,c"]`, "/v1/p?p=a,b%2Cc"},
		{"query", ``, `{"R":100,"G":true}`, "/v1/p?R=100&G=true"},
		{"query", `,"explode":false`, `{"R":100,"G":1.50}`, "/v1/p?p=R,100,G,1.50"},
		{"query", `,"style":"deepObject"`, `{"R":100,"a[b]":"x","n":null}`, "/v1/p?p%5BR%5D=100&p%5Ba%5Bb%5D%5D=x"},
		{"query", `,"content":{"application/json":{}}`, `{"a":[1]}`, "/v1/p?p=%7B%22a%22%3A%5B1%5D%7D"},
		{"query", ``, `null`, "/v1/p"},
		{"query", ``, `[]`, "/v1/p"},
		{"query", ``, `{"a":[1]}`, "error"},
		{"query", ``, `[[1]]`, "error"},
		{"query", `,"style":"deepObject"`, `"x"`, "error"},
		{"path", ``, `["a","b,c"]`, "/v1/p/a,b%2Cc"},
		{"path", ``, `{"a":1,"b":2}`, "/v1/p/a,1,b,2"},
		{"path", `,"explode":true`, `{"a":1,"b":2}`, "/v1/p/a=1,b=2"},
		{"header", ``, `["a","b"]`, "a,b"},
		{"header", `,"explode":true`, `{"a":1}`, "a=1"},
		{"header", ``, `"a\u0000"`, "error"},
		{"header", ``, `"é"`, "error"},
	} {
		path := "/p"
		if tt.in == "path" {
			path = "/p/{p}"
		}
		d := mustParse(t, document("3.1.0", `"`+path+`":{"get":{"parameters":[{"name":"p","in":"`+tt.in+`"`+tt.extra+`}]}}`, ""))
		r, err := d.Tools[0].Request(base, []byte(`{"`+tt.in+`":{"p":`+tt.value+`}}`))
		got := "error"
		if err == nil {
			got = r.URL.RequestURI()
			if tt.in == "header" {
				got = r.Header.Get("P")
			}
		}
		if got != tt.want {
			t.Errorf("%s%s %s: %s (%v), want %s", tt.in, tt.extra, tt.value, got, err, tt.want)
		}
	}
}

func TestAddressesOfServers(t *testing.T) {
	d := mustParse(t, `{"openapi":"3.1.0","paths":{"/a":{"get":{}}},"servers":[{"url":"https://{a}/{b}","variables":{"a":{"default":"{b}"},"b":{"default":"x"}}},
		{"url":"https://{a}{a}","variables":{"a":{"default":"`+strings.Repeat("x", 10_000)+`"}}},{"url":"https://{c}"},
		{"url":"https://{a}/{b}","variables":{"a":{"default":"example.com"},"b":{}}}]}`)
	if !slices.Equal(d.Servers, []string{"https://example.com/"}) {
		t.Errorf("servers %.200q", d.Servers)
	}
}

// TestDefinitionNamesItsOperation has documents that differ in what a tool does alone.
func TestDefinitionNamesItsOperation(t *testing.T) {
	const same = `:{"operationId":"x","summary":"s"}}`
	first := mustParse(t, document("3.1.0", `"/a":{"post"`+same, "")).Tools[0]
	for _, paths := range []string{`"/b":{"post"` + same, `"/a":{"patch"` + same} {
		if other := mustParse(t, document("3.1.0", paths, "")).Tools[0]; toolserver.Digest(other.Definition) == toolserver.Digest(first.Definition) {
			t.Errorf("%s has the digest of POST /a", paths)
		}
	}
}

func TestSeparatorsInPathsAreNamed(t *testing.T) {
	base, _ := url.Parse("https://api.example.com")
	tool := mustParse(t, document("3.1.0", `"/{p}":{"get":{"parameters":[{"name":"p","in":"path"}]}}`, "")).Tools[0]
	for _, value := range []string{`5/secret`, `5%2Fsecret`, `5%25252fsecret%zz`, `5\\secret`, `%5c`} {
		if _, err := tool.Request(base, []byte(`{"path":{"p":"`+value+`"}}`)); err == nil || !strings.Contains(err.Error(), `path.p must not contain "/"`) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestOperationsWithOneIDAreLeftOut(t *testing.T) {
	d := mustParse(t, document("3.1.0", `"/a":{"get":{"operationId":"x"}},"/b":{"get":{"operationId":"y"},"post":{"operationId":"x"}}`, ""))
	if len(d.Tools) != 1 || d.Tools[0].Name != "y" || len(d.LeftOut) != 2 || !strings.Contains(d.LeftOut[1], `POST /b: other operations have its operationId "x"`) {
		t.Errorf("%+v, left out %q", d.Tools, d.LeftOut)
	}
}

func TestFormsAreEncoded(t *testing.T) {
	base, _ := url.Parse("https://api.example.com")
	tool := mustParse(t, document("3.0.0", `"/a":{"post":{"requestBody":{"content":{"application/x-www-form-urlencoded":{"schema":{}}}}}}`, "")).Tools[0]
	r, err := tool.Request(base, []byte(`{"body":{"b":["x","y"],"a":"1&c=2","n":null}}`))
	if err != nil || string(r.Body) != "a=1%26c%3D2&b=x&b=y" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("Request = %+v, %v", r, err)
	}
	if _, err := tool.Request(base, []byte(`{"body":{"a":{"b":1}}}`)); err == nil {
		t.Error("a form took a nested object")
	}
}

// TestTwoParametersTogetherDoNotClimb has parameters next to each other, none of which is a
// segment of dots.
func TestTwoParametersTogetherDoNotClimb(t *testing.T) {
	base, _ := url.Parse("https://api.example.com/v1")
	tool := mustParse(t, document("3.1.0", `"/{a}{b}/x":{"get":{"parameters":[{"name":"a","in":"path"},{"name":"b","in":"path"}]}}`, "")).Tools[0]
	for _, arguments := range []string{`{"path":{"a":"%2","b":"fsecret"}}`, `{"path":{"a":"x%5","b":"cy"}}`, `{"path":{"a":"%2","b":"e%2e"}}`, `{"path":{"a":"%2e%","b":"2e"}}`} {
		if r, err := tool.Request(base, []byte(arguments)); err == nil {
			t.Errorf("%s: %s", arguments, r.URL)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(document("3.0.3", `"/a/{b}":{"get":{"parameters":[{"name":"b","in":"path","schema":{"$ref":"#/components/schemas/S"}}]}}`, `"S":{"allOf":[{"$ref":"#/components/schemas/S"},{"nullable":true}]}`)), []byte(`{"path":{"b":"x"}}`))
	f.Add([]byte(document("3.1.0", `"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"object","required":["a"],"properties":{"a":{"readOnly":true}}}}}},"responses":{"2XX":{"$ref":"#/x"}}}}`, "")), []byte(`{"body":[1]}`))
	base, _ := url.Parse("https://api.example.com/v1")
	f.Fuzz(func(t *testing.T, text, arguments []byte) {
		d, err := openapi.Parse(text)
		if err != nil {
			return
		}
		for _, tool := range d.Tools {
			if !json.Valid(tool.Definition) || len(tool.Definition) > toolserver.MaxDefinition || tool.Name == "" || d.Tool(tool.Name) != tool {
				t.Fatalf("%q: %s", tool.Name, tool.Definition)
			}
			r, err := tool.Request(base, arguments)
			if err != nil {
				continue
			}
			parsed, err := url.Parse(r.URL.String())
			if err != nil || parsed.Host != "api.example.com" || parsed.Scheme != "https" || !strings.HasPrefix(parsed.EscapedPath(), "/v1/") ||
				parsed.JoinPath().EscapedPath() != parsed.EscapedPath() && !strings.Contains(parsed.Path, "//") {
				t.Fatalf("the address is %q (%v)", r.URL, err)
			}
		}
	})
}
