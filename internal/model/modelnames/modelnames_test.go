package modelnames_test

import (
	"bytes"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modelnames"
)

func TestJSONFindsEveryModelThatAProviderMayRead(t *testing.T) {
	for _, tt := range []struct {
		body string
		want string // models joined by commas; "!" for unreadable
	}{
		{`{"model":"a"}`, "a"}, {`{"Model":"a"}`, "a"}, {`{"MODEL":"a","model":"b"}`, "a,b"}, {`{"mod\u0065l":"a"}`, "a"}, {`{"model":"a","model":"b"}`, "a,b"},
		{`{"model_id":"a"}`, "a"}, {`{"modelId":"a"}`, "a"}, {`{"model-name":"a"}`, "a"}, {`{"mode\u006c\u0073":["a"]}`, "a"}, {`{"modelſ":["a"]}`, "a"}, {`{" model ":"a"}`, "a"}, {`{"model\u0000":"a"}`, "a"},
		{`{"models":["a","b"]}`, "a,b"}, {`{"models":[{"model":"a"}]}`, "a"}, {`{"models":[{"id":"a"}]}`, "!"}, {`{"fallbacks":[{"model":"a"},"b"]}`, "a,b"}, {`{"fallbacks":"default"}`, "default"}, {`{"fallback_models":["a"]}`, "a"},
		{`{"model":{"name":"a"}}`, "!"}, {`{"model":1}`, "!"}, {`{"model":true}`, "!"}, {`{"model":null,"x":1}`, ""}, {`{"model":""}`, ""},
		{`{"tools":[{"type":"x","model":"a"}]}`, "a"}, {`{"tools":[{"function":{"parameters":{"properties":{"model":{"type":"string"}},"default":{"model":"x"}}}}]}`, ""},
		{`{"tools":[{"input_schema":{"properties":{"model":{"enum":["x"]}}}}]}`, ""},
		{`{"tools":[{"type":"openrouter:image_generation","parameters":{"model":"a"}}]}`, "a"}, {`{"tools":[{"type":"function","Type":"other","parameters":{"model":"a"}}]}`, "a"},
		{`{"tools":[{"type":"function","name":"f","parameters":{"type":"object","default":{"model":"x"}}}]}`, ""}, {`{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"default":{"model":"x"}}}]}]}`, ""},
		{`{"requests":[{"params":{"model":"a","messages":[{"model":"x"}]}},{"model":"models/b"}]}`, "a,models/b"}, {`[{"model":"a"},{"Model":"b"}]`, "a,b"},
		{`{"session":{"model":"a","audio":{"input":{"transcription":{"model":"b"}}}}}`, "a,b"}, {`{"plugins":[{"model":"a"}]}`, "a"}, {`{"embedding_model":"a"}`, "a"},
		{`{"input":{"model":"a"}}`, "a"}, {`{"input":[{"model":"x"}]}`, ""}, {`{"metadata":{"model":"x"},"messages":[{"content":{"model":"x"}}]}`, ""},
		{`{"engine":"a"}`, "a"}, {`{"x":{"engine":"exa"}}`, ""}, {`{"version":"a"}`, "a"}, {`{"deployment_id":"a"}`, "a"}, {`{"preset":"a"}`, "a"}, {`{"agent_id":"a"}`, "!"}, {`{"x":{"agent_id":"x"}}`, ""},
		{`{"input_file_id":"f"}`, "!"}, {`{"input_file_id":["f"]}`, "!"}, {`{"input_files":["f"]}`, "!"}, {`{"input_blob":"https://h.example/f"}`, "!"}, {`{"input_file_id":null}`, ""}, {`{"x":{"input_files":["f"]}}`, ""},
		{"\ufeff" + `{"model":"a"}`, "!"}, {`{"model":"a",}`, "!"}, {`{'model':'a'}`, "!"}, {"{\x00\"\x00m\x00", "!"}, {`{"model":"a"} x`, "!"}, {``, "!"}, {`"model"`, ""},
		{strings.Repeat(`{"x":`, 20) + `{"model":"a"}` + strings.Repeat("}", 20), "!"},
	} {
		t.Run(tt.body, func(t *testing.T) { check(t, tt.want)(modelnames.JSON([]byte(tt.body))) })
	}
}

func TestDocumentFindsModelsOutsideOfTools(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"a","models":["b"],"fallbacks":[{"model":"c"}],"x":{"model_id":"d"}}`: "a,b,c,d",
		`{"model":"a","tools":[{"model":"b"}],"messages":[{"model":"c"}]}`:              "a",
		`{"requests":[{"params":{"model":"a"}},{"params":{"model":"b"}}]}`:              "a,b",
		`{"models":[{"id":"a"}]}`: "!",
	} {
		t.Run(body, func(t *testing.T) {
			var doc jsonedit.Doc
			if err := doc.Scan([]byte(body)); err != nil {
				t.Fatal(err)
			}
			check(t, want)(modelnames.Document(&doc, "", ""))
		})
	}
}

// check returns what compares models and an error with what is wanted.
func check(t *testing.T, want string) func([]string, error) {
	return func(got []string, err error) {
		t.Helper()
		_, hidden := errors.AsType[*modelnames.UnreadableError](err)
		if text := strings.Join(got, ","); hidden != (want == "!") || !hidden && (err != nil || text != want) {
			t.Errorf("models %q, %v, want %q", text, err, want)
		}
	}
}

func TestFormAndQueryAreReadAsTheMostLenientReaderDoes(t *testing.T) {
	for text, want := range map[string]string{
		"model=a": "a", "x=1&model=a&model=b": "a,b", "Model=a": "a", "mod%65l=a": "a", "model%5B%5D=a": "a", "model[0]=a": "a", "+model=a": "a", "x=1;model=a": "a", "model=a%2Fb": "a/b",
		"model=a;b": "a,a;b", "model=%zz": "!", "model=": "", "x=model%3Da": "", "deployment=a": "a", "deployment-id=a&api-version=2": "a", "model_id=a": "a",
	} {
		t.Run(text, func(t *testing.T) {
			got, err := modelnames.Query(text)
			slices.Sort(got)
			check(t, want)(slices.Compact(got), err)
			got, err = modelnames.Form(text)
			slices.Sort(got)
			check(t, want)(slices.Compact(got), err)
		})
	}
	if got, _ := modelnames.Query("version=1"); got != nil {
		t.Errorf("the version of a query is %q", got)
	}
}

func TestHeadersAndPathsNameModels(t *testing.T) {
	h := http.Header{"Azureml-Model-Deployment": {"a"}, "X-Model": {"b"}, "Accept": {"c"}, "X-Model-Id": {"d"}}
	got := modelnames.Header(h)
	slices.Sort(got)
	if !slices.Equal(got, []string{"a", "b", "d"}) {
		t.Errorf("Header = %q", got)
	}
	for path, want := range map[string]string{
		"/models": "", "/files/f": "", "/models/a:generateContent": "a:generateContent,a", "/models/a%3A0/x": "a:0,a,a:0/x,a", "/openai/deployments/d/chat": "d,d/chat",
		"/projects/p/endpoints/openapi/chat/completions": "", "/publishers/google/models/m": "m", "/Engines/e": "e", "/models/o%2Fm": "o/m",
	} {
		if got := strings.Join(modelnames.Path(path), ","); got != want {
			t.Errorf("Path(%s) = %q, want %q", path, got, want)
		}
	}
	if got := modelnames.FullPath("/fal-ai/flux/dev"); !slices.Contains(got, "fal-ai/flux/dev") {
		t.Errorf("FullPath = %q", got)
	}
}

const formType = "multipart/form-data; boundary=x"

// inForm reads a form in pieces of a size.
func inForm(contentType, body string, size int) (models []string, err error) {
	m, err := modelnames.NewMultipart(contentType, func(model string) error { models = append(models, model); return nil })
	for piece := range slices.Chunk([]byte(body), size) {
		if err == nil {
			_, err = m.Write(piece)
		}
	}
	if err == nil {
		err = m.Close()
	}
	return models, err
}

// field is a part of a form.
func field(head, value string) string { return "--x\r\n" + head + "\r\n\r\n" + value + "\r\n" }

// named is the header of a field.
func named(name string) string { return `Content-Disposition: form-data; name="` + name + `"` }

func TestMultipartIsReadAsAFormParserReadsIt(t *testing.T) {
	model, other := named("model"), named("prompt")
	const file = `Content-Disposition: form-data; name="file"; filename="a.mp3"`
	for name, tt := range map[string]struct{ body, want string }{
		"a model":                      {field(model, "a") + "--x--", "a"},
		"two models":                   {field(model, "a") + field(model, "b") + "--x--\r\n", "a,b"},
		"after a file":                 {field(file, strings.Repeat("\x00\xff", 9000)) + field(model, "a") + "--x--\r\n", "a"},
		"none":                         {field(file, "model") + "--x--\r\n", ""},
		"a decoy in a field":           {field(other, model+"\r\n\r\na") + "--x--\r\n", ""},
		"a decoy in a file":            {field(file, "--y\r\n"+model+"\r\n\r\na") + "--x--\r\n", ""},
		"a decoy before the boundary":  {model + "\r\n\r\ngood\r\n" + field(model, "a") + "--x--\r\n", "!"},
		"a line end before the first":  {"\r\n" + field(model, "a") + "--x--\r\n", "!"},
		"a decoy after the end":        {field(other, "a") + "--x--\r\n" + field(model, "a"), "!"},
		"in capitals":                  {field(named("Model"), "a") + "--x--", "a"},
		"as a list":                    {field(named("model[]"), "a") + "--x--", "a"},
		"encoded":                      {field(named("mod%65l"), "a") + "--x--", "a"},
		"as a file":                    {field(model+`; filename="m"`, "a") + "--x--", "a"},
		"unquoted":                     {field("content-disposition:form-data;name=model", "a") + "--x--", "a"},
		"an escaped name":              {field(`Content-Disposition: form-data; name="mo\del"`, "a") + "--x--", "!"},
		"an extended name":             {field(`Content-Disposition: form-data; name*=utf-8''model`, "a") + "--x--", "!"},
		"two names":                    {field(`Content-Disposition: form-data; name="prompt"; name="model"`, "a") + "--x--", "!"},
		"a name in a filename":         {field(`Content-Disposition: form-data; name="prompt"; filename="x\"; name=\"model"`, "a") + "--x--", "!"},
		"two dispositions":             {field(other+"\r\n"+model, "a") + "--x--", "!"},
		"a folded header":              {field("Content-Disposition: form-data;\r\n name=\"model\"", "a") + "--x--", "!"},
		"a space before the colon":     {field(`Content-Disposition : form-data; name="model"`, "a") + "--x--", "!"},
		"a transfer encoding":          {field(model+"\r\nContent-Transfer-Encoding: base64", "YQ==") + "--x--", "!"},
		"bare line feeds":              {"--x\n" + model + "\n\na\n--x--\n", "!"},
		"a boundary after a line feed": {field(other, "p\n--x\r\n"+model+"\r\n\r\na") + "--x--", "!"},
		"a boundary after a CR":        {field(other, "p\r--x\r\n"+model+"\r\n\r\na") + "--x--", "!"},
		"a longer boundary":            {field(other, "p\r\n--xy\r\n"+model+"\r\n\r\na") + "--x--", "!"},
		"a boundary with spaces":       {"--x  \r\n" + model + "\r\n\r\na\r\n--x--", "!"},
		"a boundary after the header":  {"--x\r\n" + other + "\r\n\r\n" + field(model, "a") + "--x--", "!"},
		"an empty field":               {field(other, "") + field(model, "a") + "--x--", "a"},
		"a boundary inside a line":     {field(other, "p --x q") + field(model, "a") + "--x--", "a"},
		"JSON in a field":              {field(named("config"), `{"model":"a"}`) + "--x--", "a"},
		"JSON by its type":             {field(named("config")+"\r\nContent-Type: application/json", `{"model":"a",}`) + "--x--", "!"},
		"text that begins with [":      {field(other, "[applause] hello") + "--x--", ""},
		"an extended filename":         {field(named("file")+`; filename="a"; filename*=utf-8''%e2%82%ac`, "x") + field(model, "a") + "--x--", "a"},
		"a model that is too long":     {field(model, strings.Repeat("a", 20<<10)) + "--x--", "!"},
		"no end":                       {field(model, "a"), "!"},
		"an end without its dashes":    {field(model, "a") + "--x", "!"},
		"an unfinished part":           {field(other, "p") + "--x\r\n" + model + "\r\n\r\na", "!"},
		"a header that is too long":    {"--x\r\n" + strings.Repeat("a", 20<<10), "!"},
	} {
		for _, size := range []int{1, 3, 1 << 20} {
			t.Run(fmt.Sprint(name, " by ", size), func(t *testing.T) { check(t, tt.want)(inForm(formType, tt.body, size)) })
		}
	}
}

func TestMultipartNeedsOneBoundary(t *testing.T) {
	for _, contentType := range []string{
		"", "multipart/form-data", "multipart/mixed; boundary=x", "multipart/form-data; boundary=x; boundary=y", "multipart/form-data; boundary*=utf-8''x",
		"multipart/form-data; boundary*0=x; boundary*1=y", `multipart/form-data; boundary="x y"`, `multipart/form-data; boundary="x\"y"`, "multipart/form-data; boundary=" + strings.Repeat("x", 71),
		"multipart/form-data; x=boundary=x; boundary=x", "multipart/form-data; boundary=x, multipart/form-data; boundary=y",
	} {
		if _, err := modelnames.NewMultipart(contentType, nil); err == nil {
			t.Errorf("%q is accepted", contentType)
		}
	}
	for _, contentType := range []string{formType, `Multipart/Form-Data; charset=utf-8; Boundary="x:y=z"`} {
		if _, err := modelnames.NewMultipart(contentType, nil); err != nil {
			t.Errorf("%q: %v", contentType, err)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"model":"a"}`, `{"Model":["a",{"x":{"models":null}}]}`, `[{"tools":[{"parameters":{"model":1}}]}]`, `{"modelſ":"a"}`, "\ufeff{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		plain, err := modelnames.JSON(b)
		if err != nil {
			return
		}
		// A model more is found, wherever the others are.
		with, err := modelnames.JSON(fmt.Appendf(nil, `{"x":%s,"MODEL":"one more"}`, b))
		if _, hidden := errors.AsType[*modelnames.UnreadableError](err); !hidden && !slices.Contains(with, "one more") {
			t.Fatalf("%s: %q, then %q", b, plain, with)
		}
	})
}

// FuzzMultipart compares with the standard library: what that reads as the model
// must be found, or the form refused.
func FuzzMultipart(f *testing.F) {
	f.Add([]byte(field(named("model"), "a")+"--x--"), 1)
	f.Add([]byte(field(named("prompt"), "p\r\n--xy")+field(named("model"), "a")+"--x--\r\n"), 7)
	f.Add([]byte("--x\n"+named("model")+"\n\na\n--x--"), 3)
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		if size < 1 || size > 1<<10 {
			return
		}
		found, err := inForm(formType, string(body), size)
		if whole, err2 := inForm(formType, string(body), len(body)+1); (err == nil) != (err2 == nil) || err == nil && !slices.Equal(found, whole) {
			t.Fatalf("%q by %d: %q, %v; at once: %q, %v", body, size, found, err, whole, err2)
		}
		form, ferr := multipart.NewReader(bytes.NewReader(body), "x").ReadForm(1 << 20)
		if err != nil || ferr != nil {
			return
		}
		defer form.RemoveAll()
		for _, model := range form.Value["model"] {
			if model != "" && !slices.Contains(found, model) {
				t.Fatalf("%q: the standard library reads the model %q, found %q", body, model, found)
			}
		}
	})
}

func FuzzForm(f *testing.F) {
	for _, s := range []string{"model=a", "x=1;Model=b", "mod%65l[]=c", "model=%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := modelnames.Form(text + "&model=one+more"); err == nil && !slices.Contains(got, "one more") {
			t.Fatalf("%q: %q", text, got)
		}
	})
}

// The known model of a usual body costs no allocation.
func TestDocumentWithAKnownModelDoesNotAllocate(t *testing.T) {
	var doc jsonedit.Doc
	body := `{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"Parallel-Tool_Calls":true,"stream":false,"tools":[{"type":"image","model":"x"}]}`
	if err := doc.Scan([]byte(body)); err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(100, func() {
		if names, err := modelnames.Document(&doc, "other", "m"); len(names) > 0 || err != nil {
			t.Errorf("names %q, error %v, want none", names, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
	var fallbacks jsonedit.Doc
	if err := fallbacks.Scan([]byte(`{"model":"m","fallbacks":[{"model":"m"},"b"]}`)); err != nil {
		t.Fatal(err)
	}
	check(t, "b")(modelnames.Document(&fallbacks, "m", ""))
	if names, err := modelnames.Document(&doc, "other", ""); len(names) != 1 || names[0] != "m" || err != nil {
		t.Errorf("names %q, error %v, want m", names, err)
	}
}
