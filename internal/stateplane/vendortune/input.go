package vendortune

import (
	"encoding/json"
	"math"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

// Input is a body that creates a job. Model, TrainingFile and ValidationFile may be
// replaced by what the provider calls them.
type Input struct {
	Model          string
	TrainingFile   string
	ValidationFile string // empty for none
	Suffix         string // empty for none
	Seed           *int64
	Metadata       map[string]string // nil for none
	// OwnID is the id of the gateway by which Find recovers the job. Empty for none.
	OwnID string
	// Options are what a vendor needs in addition: role_arn, job_name and
	// output_data_config for Bedrock.
	Options map[string]string

	method          json.RawMessage // as sent; nil for none
	methodType      string          // supervised if none was sent
	hyperparameters map[string]hyperparameter
	integrations    []integration
	unknown         []string // members of the body that are not of the shape
	body            []byte
}

// hyperparameter is a hyper-parameter as sent, and where.
type hyperparameter struct {
	raw  json.RawMessage
	path string
}

// Limits of the body.
const (
	maxIntegrations  = 5
	maxSuffix        = 64 // characters
	maxMetadata      = 16
	maxMetadataKey   = 64  // characters
	maxMetadataValue = 512 // characters
)

// Parse checks a body and reads it. The body must not change later. Members that may be
// absent are those of the statement AMB-8 of the specification: suffix and method.
func Parse(body []byte) (*Input, error) {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return nil, apierr.New(apierr.Invalid, "the body must be a JSON object: %v", err).WithCode("invalid_json")
	}
	if fault := createBody.Check(&d); fault != nil {
		return nil, fault.Error(" ")
	}
	return read(&d)
}

var createBody = grammar.NewBody([]grammar.Member{
	{Name: "model", Rule: grammar.Text{NotEmpty: true}, Required: true, Send: "the name of the base model"},
	{Name: "training_file", Rule: grammar.Text{NotEmpty: true}, Required: true, Send: "the id of an uploaded file"},
	{Name: "validation_file", Rule: grammar.Text{NotEmpty: true}},
	{Name: "suffix", Rule: grammar.Text{NotEmpty: true, Chars: maxSuffix}},
	{Name: "method", Rule: grammar.Object{Members: []grammar.Member{
		{Name: "type", Rule: grammar.Words{"supervised", "dpo", "reinforcement"}, Required: true},
		{Name: "supervised", Rule: methodRule},
		{Name: "dpo", Rule: methodRule},
		{Name: "reinforcement", Rule: methodRule},
	}}},
	{Name: "hyperparameters", Rule: hyperparameterRule},
	{Name: "integrations", Rule: grammar.List{Max: maxIntegrations, What: "integrations", Each: grammar.Func(checkIntegration)}},
	{Name: "seed", Rule: grammar.Integer{Min: 0, Max: math.MaxInt32}},
	{Name: "metadata", Rule: grammar.Func(checkMetadata)},
	{Name: "provider_options", Rule: grammar.Map{Each: grammar.Text{}, What: "an object of strings"}},
	{Name: "gateway_options", Rule: grammar.NullOnly{Why: ": send these headers with the request itself"}},
	{Name: "role_arn", Rule: grammar.Text{NotEmpty: true}},
	{Name: "job_name", Rule: grammar.Text{NotEmpty: true, Chars: 40}},
	{Name: "output_data_config", Rule: grammar.Text{NotEmpty: true}},
})

var (
	methodRule = grammar.Object{Members: []grammar.Member{{Name: "hyperparameters", Rule: hyperparameterRule}}}

	// hyperparameterRule has rules for what the specification and OpenAI have. Which others
	// exist depends on the vendor.
	hyperparameterRule = grammar.Object{Members: []grammar.Member{
		{Name: "n_epochs", Rule: autoOr(grammar.Integer{Min: 1, Max: 10_000})},
		{Name: "batch_size", Rule: autoOr(grammar.Integer{Min: 1, Max: 1_000_000})},
		{Name: "learning_rate_multiplier", Rule: autoOr(grammar.Number{Min: 0, Max: 1e6})},
		{Name: "beta", Rule: autoOr(grammar.Number{Min: 0, Max: 1e6})},
	}}
)

func autoOr(number grammar.Rule) grammar.Rule {
	return grammar.ByKind{Text: grammar.Words{"auto"}, Number: number, What: `"auto" or ` + number.Expected()}
}

func checkMetadata(v jsonedit.Value) *grammar.Fault {
	const want = "an object of at most 16 strings"
	if jsonedit.KindOf(v.Raw()) != jsonedit.Object {
		return grammar.WrongType(want, v.Raw())
	}
	n := 0
	value := grammar.Text{Chars: maxMetadataValue}
	for key, of := range v.Fields() {
		name := key.String()
		switch n++; {
		case n > maxMetadata:
			return &grammar.Fault{Code: grammar.CodeValue, Want: want, Sent: "one of 17 or more"}
		case len([]rune(name)) > maxMetadataKey:
			return &grammar.Fault{Code: grammar.CodeValue, Problem: "has a key of more than 64 characters"}
		}
		if f := value.Check(jsonedit.NewCursor(of.Raw())); f != nil {
			return f.In(name)
		}
	}
	return nil
}

// read reads a body that has been checked.
func read(d *jsonedit.Doc) (*Input, error) {
	text := func(name string) string {
		v, _ := d.Find(name)
		s, _ := v.Text()
		return s
	}
	in := &Input{
		Model: text("model"), TrainingFile: text("training_file"), ValidationFile: text("validation_file"), Suffix: text("suffix"),
		Options: map[string]string{}, methodType: supervised, body: d.Bytes(),
	}
	if v, ok := d.Find("seed"); ok && !v.IsNull() {
		seed, _ := v.Int()
		in.Seed = &seed
	}
	if v, ok := d.Find("metadata"); ok && !v.IsNull() {
		in.Metadata = textsOf(v)
	}
	if v, ok := d.Find("provider_options"); ok {
		in.Options = textsOf(v)
	}
	if v, ok := d.Find("method"); ok && !v.IsNull() {
		in.method, in.methodType = v.Raw(), v.TextOf("type")
	}
	if v, ok := d.Find("integrations"); ok {
		if err := json.Unmarshal(v.Raw(), &in.integrations); err != nil {
			return nil, err
		}
	}
	in.readHyperparameters(d)
	in.readOptions(d)
	return in, nil
}

// textsOf returns the strings of an object.
func textsOf(v jsonedit.Value) map[string]string {
	all := map[string]string{}
	for key, of := range v.Fields() {
		all[key.String()], _ = of.Text()
	}
	return all
}

// readHyperparameters reads those of the method, and the older ones of the top level that
// the method does not set.
func (in *Input) readHyperparameters(d *jsonedit.Doc) {
	in.hyperparameters = map[string]hyperparameter{}
	add := func(v jsonedit.Value, path string) {
		for key, value := range v.Fields() {
			if name := key.String(); !value.IsNull() {
				in.hyperparameters[name] = hyperparameter{value.Raw(), path + "." + name}
			}
		}
	}
	if v, ok := d.Find("hyperparameters"); ok {
		add(v, "hyperparameters")
	}
	method, _ := d.Find("method")
	if of, ok := method.Get(in.methodType); ok {
		if v, ok := of.Get("hyperparameters"); ok {
			add(v, "method."+in.methodType+".hyperparameters")
		}
	}
}

// ofGateway are the members that are read here and not sent to a vendor of the same shape.
var ofGateway = map[string]bool{
	"provider_options": true, "role_arn": true, "job_name": true, "output_data_config": true, "gateway_options": true,
}

// readOptions reads the options at the top level, and notes unknown members.
func (in *Input) readOptions(d *jsonedit.Doc) {
	shape := map[string]bool{"model": true, "training_file": true, "validation_file": true, "suffix": true, "method": true,
		"hyperparameters": true, "integrations": true, "seed": true, "metadata": true}
	for key, value := range d.Members() {
		name := key.String()
		switch {
		case shape[name]:
		case ofGateway[name]:
			if text, ok := value.Text(); ok {
				in.Options[name] = text
			}
		case !value.IsNull():
			in.unknown = append(in.unknown, name)
		}
	}
}
