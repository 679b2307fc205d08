package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
)

// Options are settings of particular providers by wire name. Credentials among
// them are masked when printed.
type Options map[string]string

// String returns the options with masked credentials.
func (o Options) String() string { return fmt.Sprint(o.hidden()) }

// Format writes the options with masked credentials for every verb.
func (o Options) Format(f fmt.State, _ rune) { io.WriteString(f, o.String()) }

// LogValue keeps credentials out of structured logs.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalJSON keeps credentials out of JSON.
func (o Options) MarshalJSON() ([]byte, error) { return json.Marshal(o.hidden()) }

func (o Options) hidden() map[string]string {
	shown := maps.Clone(map[string]string(o))
	for name := range shown {
		if i := slices.IndexFunc(options, func(row option) bool { return row.name == name }); i < 0 || options[i].secret {
			shown[name] = dots
		}
	}
	return shown
}

// option is a row of the table of provider options.
type option struct {
	name      string
	doc       string
	secret    bool
	listed    bool     // in the specification; otherwise an extension
	choices   []string // nil: any string
	otherwise string   // another spelling
	harmless  bool     // may be set next to a managed provider: see IsHarmless
}

// IsHarmless reports whether an option carries no credential, and changes neither where
// requests are sent nor the account or model that serves them. A config may set it for a
// managed provider, and for a provider that the request names.
func IsHarmless(name string) bool {
	return name == apiVersion || slices.ContainsFunc(options, func(o option) bool { return o.harmless && o.name == name })
}

// apiVersion is an option with a field of its own.
const apiVersion = "api_version"

// options are the provider options with string values. The service account is
// an object and has its own field.
var options = []option{
	{name: "vendora_organization", listed: true, doc: "organisation that an openai request is billed to"},
	{name: "vendora_project", listed: true, doc: "project that an openai request belongs to"},
	{name: "vendora_beta", harmless: true, doc: "beta features to request from openai"},
	{name: "vendorb_beta", harmless: true, listed: true, doc: "beta features to request from anthropic, separated by commas"},
	{name: "vendorb_version", harmless: true, doc: "version of the anthropic API"},

	{name: "cloud_a_access_key_id", listed: true, secret: true, doc: "access key of bedrock or sagemaker"},
	{name: "cloud_a_secret_access_key", listed: true, secret: true, doc: "secret of the access key"},
	{name: "cloud_a_session_token", listed: true, secret: true, doc: "token of a temporary access key"},
	{name: "cloud_a_region", listed: true, doc: "region of bedrock or sagemaker"},
	{name: "cloud_a_auth_type", choices: []string{"accessKey", "assumedRole", "apiKey", "serviceRole"},
		doc: "authentication method; accessKey by default"},
	{name: "cloud_a_role_arn", doc: "role to assume"},
	{name: "cloud_a_external_id", doc: "external id for assuming the role"},
	{name: "cloud_a_s3_bucket", doc: "bucket of batch files"},
	{name: "cloud_a_s3_object_key", doc: "object of a batch file"},
	{name: "cloud_a_bedrock_model", doc: "model of a batch"},
	{name: "cloud_a_server_side_encryption", doc: "encryption of stored files"},
	{name: "cloud_a_server_side_encryption_kms_key_id", doc: "KMS key of that encryption"},
	{name: "amzn_sagemaker_custom_attributes", doc: "sagemaker: custom attributes"},
	{name: "amzn_sagemaker_target_model", doc: "sagemaker: model of a multi-model endpoint"},
	{name: "amzn_sagemaker_target_variant", doc: "sagemaker: production variant"},
	{name: "amzn_sagemaker_target_container_hostname", doc: "sagemaker: container of an endpoint"},
	{name: "amzn_sagemaker_inference_id", doc: "sagemaker: id of the inference"},
	{name: "amzn_sagemaker_enable_explanations", doc: "sagemaker: whether to return explanations"},
	{name: "amzn_sagemaker_inference_component", doc: "sagemaker: inference component"},
	{name: "amzn_sagemaker_session_id", doc: "sagemaker: session"},
	{name: "amzn_sagemaker_model_name", doc: "sagemaker: model name"},

	{name: "cloud_b_project_id", listed: true, doc: "project of vertex-ai"},
	{name: "cloud_b_region", listed: true, doc: "region of vertex-ai"},
	{name: "cloud_b_auth_type", doc: "authentication method"},
	{name: "cloud_b_storage_bucket_name", doc: "bucket of batch files"},
	{name: "cloud_b_model_name", doc: "model of a batch"},
	{name: "filename", doc: "name of an uploaded file"},

	{name: "cloud_c_region", listed: true, doc: "region of an azure-ai deployment"},
	{name: "cloud_c_deployment_name", listed: true, doc: "azure-ai deployment"},
	{name: "cloud_c_deployment_type", listed: true, choices: []string{"serverless", "managed"}, doc: "kind of azure-ai deployment"},
	{name: "cloud_c_endpoint_name", listed: true, doc: "azure-ai endpoint"},
	{name: "cloud_c_api_version", harmless: true, listed: true, doc: "version of the azure-ai API"},
	{name: "cloud_c_entra_scope", harmless: true, listed: true, doc: "scope of the Entra token"},
	{name: "cloud_c_auth_mode", choices: []string{"apiKey", "entra", "managed", "workload"}, doc: "authentication method; apiKey by default"},
	{name: "cloud_c_entra_client_id", doc: "Entra application"},
	{name: "cloud_c_entra_client_secret", secret: true, doc: "secret of the Entra application"},
	{name: "cloud_c_entra_tenant_id", doc: "Entra tenant"},
	{name: "cloud_c_managed_client_id", doc: "managed identity"},
	{name: "cloud_c_workload_client_id", doc: "workload identity"},
	{name: "cloud_c_ad_token", secret: true, doc: "Entra token to use as is"},
	{name: "cloud_c_model_name", doc: "model behind the deployment"},
	{name: "cloud_c_foundry_url", doc: "address of a foundry"},
	{name: "cloud_c_extra_parameters", otherwise: "cloud_c_extra_params", doc: "how azure-ai handles unknown parameters"},

	{name: "workers_ai_account_id", doc: "account of workers-ai"},
	{name: "huggingface_base_url", doc: "address of a huggingface endpoint"},
	{name: "snowflake_account", doc: "account of cortex"},
	{name: "fireworks_account_id", doc: "account of fireworks-ai"},
	{name: "stability_client_id", doc: "client of stability-ai"},
	{name: "stability_client_user_id", otherwise: "stability_user_id", doc: "user of that client"},
	{name: "stability_client_version", otherwise: "stability_version", doc: "version of that client"},
	{name: "mistral_fim_completion", harmless: true, choices: []string{"true", "false"}, doc: "fill-in-the-middle completions of mistral-ai"},
	{name: "oracle_api_version", harmless: true, doc: "version of the oracle API"},
	{name: "oracle_region", doc: "region of oracle"},
	{name: "oracle_compartment_id", doc: "compartment of oracle"},
	{name: "oracle_serving_mode", doc: "serving mode of oracle"},
	{name: "oracle_tenancy", doc: "tenancy of oracle"},
	{name: "oracle_user", doc: "user of oracle"},
	{name: "oracle_fingerprint", doc: "fingerprint of the signing key"},
	{name: "oracle_private_key", secret: true, doc: "signing key"},
	{name: "oracle_key_passphrase", secret: true, doc: "passphrase of the signing key"},
}

// optionFields returns the options as fields of a config.
func optionFields() []field[Config] {
	fields := make([]field[Config], 0, len(options))
	for _, row := range options {
		fields = append(fields, row.field())
	}
	return fields
}

func (o option) field() field[Config] {
	k := text
	if o.choices != nil {
		k = oneOf(o.choices...)
	}
	f := field[Config]{name: o.name, doc: o.doc, extension: !o.listed, schema: k.schema, secret: o.secret, destination: !o.secret,
		setting: true}
	if o.otherwise != "" {
		f.also = []string{o.otherwise}
	}
	f.read = func(r *reader, path string, v value, into *Config) {
		s, ok := k.read(r, path, v)
		if !ok || s == "" {
			return
		}
		if into.Options == nil {
			into.Options = Options{}
		}
		into.Options[o.name] = s
	}
	f.write = func(w writer, from *Config) (value, bool) {
		s, given := from.Options[o.name]
		if o.secret {
			s = w.secret(s)
		}
		return value{kind: isString, text: s}, given
	}
	return f
}
