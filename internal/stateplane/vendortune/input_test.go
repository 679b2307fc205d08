package vendortune_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendortune"
)

// body returns a valid body with further members.
func body(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"m","training_file":"f"` + members + `}`
}

func wandb(n int) string {
	return `"integrations":[` + strings.TrimSuffix(strings.Repeat(`{"type":"wandb","wandb":{"project":"p"}},`, n), ",") + `]`
}

func metadata(pairs, key, value int) string {
	var all []string
	for i := range pairs {
		all = append(all, fmt.Sprintf(`"%0*d":"%s"`, key, i, strings.Repeat("ä", value)))
	}
	return `"metadata":{` + strings.Join(all, ",") + `}`
}

func TestBodiesWithinTheSpecificationAreAccepted(t *testing.T) {
	for name, text := range map[string]string{
		"required only":     body(""),
		"nulls":             body(`"suffix":null,"method":null,"validation_file":null,"integrations":null,"seed":null,"metadata":null,"hyperparameters":null`),
		"all":               body(`"suffix":"s","validation_file":"v","seed":0,"method":{"type":"reinforcement","reinforcement":{"grader":{}}}`),
		"five integrations": body(wandb(5)),
		"metadata":          body(metadata(16, 64, 512)),
		"long suffix":       body(`"suffix":"` + strings.Repeat("ä", 64) + `"`),
		"auto":              body(`"hyperparameters":{"n_epochs":"auto","batch_size":"auto","learning_rate_multiplier":"auto"}`),
		"unknown members":   body(`"new_parameter":{"a":1}`),
		"other service":     body(`"integrations":[{"type":"other","other":{"project":"p","name":"n","entity":"e","tags":["a"]}}]`),
	} {
		if _, err := vendortune.Parse([]byte(text)); err != nil {
			t.Errorf("%s: Parse(%s) = %v", name, text, err)
		}
	}
}

// S-181, S-361 to S-365, S-503.
func TestBodiesBeyondTheSpecificationAreRefusedByName(t *testing.T) {
	for text, param := range map[string]string{
		`{"training_file":"f"}`:                                                "model",
		`{"model":"m"}`:                                                        "training_file",
		`{"model":null,"training_file":"f"}`:                                   "model",
		`{"model":7,"training_file":"f"}`:                                      "model",
		`{"model":"m","training_file":["f"]}`:                                  "training_file",
		body(`"suffix":7`):                                                     "suffix",
		body(`"suffix":"` + strings.Repeat("x", 65) + `"`):                     "suffix",
		body(`"method":"supervised"`):                                          "method",
		body(`"method":{"type":"other"}`):                                      "method.type",
		body(`"method":{"supervised":{}}`):                                     "method.type",
		body(`"method":{"type":"dpo","dpo":{"hyperparameters":[]}}`):           "method.dpo.hyperparameters",
		body(`"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":"x"}}}`): "method.dpo.hyperparameters.beta",
		body(`"validation_file":1`):                                            "validation_file",
		body(`"hyperparameters":{"n_epochs":0}`):                               "hyperparameters.n_epochs",
		body(`"hyperparameters":{"n_epochs":1.5}`):                             "hyperparameters.n_epochs",
		body(`"hyperparameters":{"n_epochs":"all"}`):                           "hyperparameters.n_epochs",
		body(`"hyperparameters":{"batch_size":true}`):                          "hyperparameters.batch_size",
		body(`"seed":1.5`):                                                     "seed",
		body(`"seed":-1`):                                                      "seed",
		body(`"seed":99999999999999999999`):                                    "seed",
		body(`"integrations":{}`):                                              "integrations",
		body(wandb(6)):                                                         "integrations",
		body(`"integrations":["wandb"]`):                                       "integrations[0]",
		body(`"integrations":[{"wandb":{}}]`):                                  "integrations[0].type",
		body(`"integrations":[{"type":"type"}]`):                               "integrations[0].type",
		body(`"integrations":[{"type":"wandb"}]`):                              "integrations[0].wandb",
		body(`"integrations":[{"type":"wandb","wandb":"p"}]`):                  "integrations[0].wandb",
		body(`"integrations":[{"type":"wandb","wandb":{"project":1}}]`):        "integrations[0].wandb.project",
		body(`"integrations":[{"type":"wandb","wandb":{"tags":["a",1]}}]`):     "integrations[0].wandb.tags[1]",
		body(`"metadata":[]`):                                                  "metadata",
		body(metadata(17, 2, 1)):                                               "metadata",
		body(metadata(1, 65, 1)):                                               "metadata",
		body(metadata(1, 2, 513)):                                              "metadata.00",
		body(`"metadata":{"a":1}`):                                             "metadata.a",
		body(`"provider_options":{"a":1}`):                                     "provider_options.a",
		body(`"gateway_options":{"x":"y"}`):                                    "gateway_options",
		body(`"role_arn":1`):                                                   "role_arn",
	} {
		_, err := vendortune.Parse([]byte(text))
		checkError(t, text, err, apierr.Invalid, param, param)
	}
	for _, text := range []string{``, `[]`, `{`, `{"model":"m","model":"n","training_file":"f"}`, "{\"model\":\"\xff\"}"} {
		_, err := vendortune.Parse([]byte(text))
		checkError(t, text, err, apierr.Invalid, "", "JSON")
	}
}

// A key in another case is another member: it must not win over the checked one.
func TestKeysInAnotherCaseAreOtherMembers(t *testing.T) {
	in := mustParse(t, `{"model":"m","training_file":"f","Model":7,"MODEL":"evil","Seed":1}`)
	if in.Model != "m" || in.Seed != nil {
		t.Errorf("Parse() = %+v", in)
	}
}

func TestParametersThatAVendorLacksAreRefusedByName(t *testing.T) {
	for _, tt := range []struct{ provider, members, param, word string }{
		{"bedrock", `"hyperparameters":{"beta":1}`, "hyperparameters.beta", "n_epochs, batch_size"},
		{"vertex-ai", `"hyperparameters":{"warmup":1}`, "hyperparameters.warmup", "learning_rate_multiplier"},
		{"fireworks-ai", `"hyperparameters":{"learning_rate_multiplier":2}`, "hyperparameters.learning_rate_multiplier", "learning_rate"},
		{"together-ai", `"hyperparameters":{"learning_rate_multiplier":2}`, "hyperparameters.learning_rate_multiplier", "learning_rate"},
		{"mistral-ai", `"hyperparameters":{"batch_size":2}`, "hyperparameters.batch_size", "n_epochs"},
		{"cohere", `"method":{"type":"supervised","supervised":{"hyperparameters":{"x":1}}}`, "method.supervised.hyperparameters.x", "n_epochs"},
		{"together-ai", `"hyperparameters":{"learning_rate":"fast"}`, "hyperparameters.learning_rate", "number"},
		{"vertex-ai", `"hyperparameters":{"adapter_size":3}`, "hyperparameters.adapter_size", "32"},
		{"bedrock", `"method":{"type":"dpo"}`, "method.type", "supervised"},
		{"vertex-ai", `"method":{"type":"reinforcement"}`, "method.type", "supervised, dpo"},
		{"fireworks-ai", `"method":{"type":"reinforcement","reinforcement":{"grader":{}}}`, "method.type", "supervised, dpo"},
		{"together-ai", `"method":{"type":"supervised","supervised":{"other":1}}`, "method.supervised.other", "together-ai"},
		{"together-ai", `"method":{"type":"supervised","dpo":{}}`, "method.dpo", "supervised"},
		{"mistral-ai", `"method":{"type":"dpo"}`, "method.type", "supervised"},
		{"cohere", `"method":{"type":"dpo"}`, "method.type", "supervised"},
		{"mistral-ai", `"suffix":"` + strings.Repeat("x", 19) + `"`, "suffix", "18"},
		{"together-ai", `"suffix":"` + strings.Repeat("x", 41) + `"`, "suffix", "40"},
		{"bedrock", `"seed":1`, "seed", "seed"},
		{"vertex-ai", `"seed":1`, "seed", "seed"},
		{"fireworks-ai", `"seed":1`, "seed", "seed"},
		{"mistral-ai", `"seed":1`, "seed", "seed"},
		{"cohere", `"seed":1`, "seed", "seed"},
		{"cohere", `"validation_file":"v"`, "validation_file", "data set"},
		{"fireworks-ai", `"validation_file":"v","method":{"type":"dpo"}`, "validation_file", "DPO"},
		{"bedrock", wandb(1), "integrations", "bedrock"},
		{"vertex-ai", wandb(1), "integrations", "vertex-ai"},
		{"together-ai", wandb(2), "integrations", "one"},
		{"together-ai", wandb(1), "integrations[0].wandb.api_key", "key"},
		{"together-ai", `"integrations":[{"type":"mlflow","mlflow":{}}]`, "integrations[0].type", "wandb"},
		{"fireworks-ai", `"integrations":[{"type":"wandb","wandb":{"api_key":"k","name":"n"}}]`, "integrations[0].wandb.name", "name"},
		{"mistral-ai", `"integrations":[{"type":"wandb","wandb":{"api_key":"k","entity":"n"}}]`, "integrations[0].wandb.entity", "entity"},
		{"cohere", `"integrations":[{"type":"wandb","wandb":{"api_key":"k","tags":["n"]}}]`, "integrations[0].wandb.tags", "tags"},
		{"together-ai", `"new_parameter":1`, "new_parameter", "new_parameter"},
	} {
		a, v := account(nil)
		_, err := mustFor(t, tt.provider).Create(t.Context(), a, mustParse(t, body(tt.members)))
		checkError(t, tt.provider+" "+tt.members, err, apierr.Invalid, tt.param, tt.word)
		if len(v.requests) > 0 {
			t.Errorf("%s %s: requests %q were sent", tt.provider, tt.members, v.requests)
		}
	}
}

// Whatever a client sends, a vendor gets JSON or the client an error that names a member.
func FuzzBodies(f *testing.F) {
	for _, c := range creations {
		f.Add(c.body)
	}
	f.Add(body(wandb(5)))
	f.Add(body(metadata(16, 64, 512)))
	f.Fuzz(func(t *testing.T, text string) {
		in, err := vendortune.Parse([]byte(text))
		if err != nil {
			if e := apierr.From(err); e.Kind != apierr.Invalid {
				t.Fatalf("Parse(%q) = %v, an error of kind %d", text, err, e.Kind)
			}
			return
		}
		for _, provider := range vendortune.Providers() {
			a, v := account(nil)
			_, err := mustFor(t, provider).Create(t.Context(), a, in)
			if e := apierr.From(err); e == nil || e.Kind != apierr.Invalid && e.Kind != apierr.NotFound {
				t.Fatalf("%s: Create(%q) = %v", provider, text, err)
			}
			for _, sent := range v.bodies {
				checkJSON(t, sent)
			}
		}
	})
}
