package table

import (
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider"
)

// awsRows returns the providers of Amazon.
func awsRows() []*provider.Spec {
	return []*provider.Spec{
		{
			ID: "bedrock",
			Betas: provider.Betas{
				// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html
				Allow: []string{"computer-use-2025-01-24", "token-efficient-tools-2025-02-19", "interleaved-thinking-2025-05-14",
					"output-128k-2025-02-19", "dev-full-thinking-2025-05-14", "context-1m-2025-08-07", "context-management-2025-06-27",
					"effort-2025-11-24", "tool-search-tool-2025-10-19", "tool-examples-2025-10-29"},
				Rename: map[string]string{"advanced-tool-use-": "tool-search-tool-2025-10-19"},
			},
			Vendors:      []provider.Vendor{provider.VendorAnthropic},
			OptionPrefix: "cloud_a_",
			Name:         "AWS Bedrock",
			Aliases:      []string{"aws-bedrock", "cloud_a"},
			BaseURL:      "https://bedrock-runtime.{region}.amazonaws.com",
			Dialect:      api.DialectConverse, Auth: signedBy(provider.Bearer(), "bedrock"), Env: "AWS_BEARER_TOKEN_BEDROCK",
			// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_Operations_Amazon_Bedrock_Runtime.html
			Paths: nativePaths{
				api.Converse:            "/model/{model}/converse",
				api.Converse.Streamed(): "/model/{model}/converse-stream",
				api.Messages:            "/model/{model}/invoke",
				api.Messages.Streamed(): "/model/{model}/invoke-with-response-stream",
				api.Invoke:              "/model/{model}/invoke",
				api.Invoke.Streamed():   "/model/{model}/invoke-with-response-stream",
				api.CountTokens:         "/model/{model}/count-tokens",
				api.ConverseCount:       "/model/{model}/count-tokens",
				api.Embeddings:          "/model/{model}/invoke",
				api.Images:              "/model/{model}/invoke",
				api.Rerank:              "/model/{model}/invoke",
			},
			// https://docs.aws.amazon.com/general/latest/gr/bedrock.html
			// https://docs.aws.amazon.com/general/latest/gr/s3.html
			Services: map[string]provider.Service{
				"bedrock": {Address: "https://bedrock.{region}.amazonaws.com", Option: "bedrock_url"},
				"s3":      {Address: "https://s3.{region}.amazonaws.com", Option: "s3_url", Signed: "s3", Bucket: true},
			},
			PathOf: bedrockPath,
			RuleOf: converse.Rule, RegionOf: arnRegion,
			Dialects: bedrockDialects, UpstreamModel: unescaped, BodyRules: bedrockShapes(),
			Options: append(awsOptions(), bedrockOptions()...), Profile: dialect.Profile{Messages: bedrockMessages},
			Tiers:         flexTier,
			TierHeader:    "X-Amzn-Bedrock-Service-Tier", // https://docs.aws.amazon.com/bedrock/latest/userguide/service-tiers-inference.html
			TelemetryName: "aws.bedrock",
			Docs:          "https://docs.aws.amazon.com/bedrock/latest/APIReference",
			Notes: []string{
				"The key is a Bedrock API key, sent as Bearer. With an access key, requests are signed instead.",
				"Models of Anthropic are also reached in the messages protocol. The model may be an inference profile or its ARN. If no region is set, that of the ARN is used.",
				"Streams are AWS binary event streams.",
			},
		},
		{
			ID:           "bedrock-mantle",
			Vendors:      []provider.Vendor{provider.VendorAnthropic, provider.VendorAmazon},
			OptionPrefix: "cloud_a_",
			Name:         "Amazon Bedrock Mantle",
			BaseURL:      "https://bedrock-mantle.{region}.api.aws/v1",
			Dialect:      api.DialectChat, Auth: signedBy(provider.Bearer(), "bedrock-mantle"), Env: "AWS_BEARER_TOKEN_BEDROCK",
			Paths: join(paths(api.Chat, api.Responses, api.Models),
				nativePaths{api.Messages: "https://bedrock-mantle.{region}.api.aws/anthropic/v1/messages"}),
			Dialects:      mantleDialects,
			Options:       awsOptions(),
			Profile:       dialect.Profile{Responses: &dialect.ResponsesProfile{Encrypted: true}},
			TelemetryName: "aws.bedrock",
			Notes:         []string{"The key is a Bedrock API key; with an access key, requests are signed instead. Models named anthropic.* are at /anthropic/v1 in the messages protocol."},
		},
		{
			ID:           "claude-platform-aws",
			Vendors:      []provider.Vendor{provider.VendorAmazon},
			OptionPrefix: "cloud_a_",
			Name:         "Claude Platform on AWS",
			BaseURL:      "https://aws-external-anthropic.{region}.api.aws/v1",
			Dialect:      api.DialectMessages, Auth: signedBy(provider.Header("x-api-key"), "aws-external-anthropic"), Env: "ANTHROPIC_AWS_API_KEY",
			Paths:  claudePaths(""),
			Header: map[string]string{"Anthropic-Version": "2023-06-01"},
			Options: append(awsOptions(),
				provider.Option{Name: "workspace_id", Header: "Anthropic-Workspace-Id", Doc: "workspace; required unless the client sends the header"}),
			Notes: []string{"The key is the platform's, sent in x-api-key; with an access key, requests are signed instead."},
		},
		{
			ID:           "sagemaker",
			Vendors:      []provider.Vendor{provider.VendorAmazon},
			OptionPrefix: "cloud_a_",
			Name:         "AWS SageMaker",
			BaseURL:      "https://runtime.sagemaker.{region}.amazonaws.com",
			Dialect:      api.DialectChat, Auth: signedBy(provider.Auth{}, "sagemaker"),
			Paths: nativePaths{
				api.Chat:            "/endpoints/{model}/invocations",
				api.Chat.Streamed(): "/endpoints/{model}/invocations-response-stream",
			},
			// The path names the endpoint, whose container has one model.
			BodyRules:   map[api.Operation]provider.BodyRule{api.Chat: {Drop: []string{"model"}}, api.Chat.Streamed(): {Drop: []string{"model"}}},
			ErrorStatus: containerStatus,
			Options:     append(awsOptions(), sagemakerOptions()...),
			Docs:        "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html",
			Notes: []string{"Requests are signed with an access key; behind a custom host without one, that host must sign.",
				"The model is the name of an endpoint whose container supports the chat protocol, like vLLM, TGI and LMI. Use pass-through for other containers."},
		},
	}
}

// signedBy returns an authentication that also signs requests for a service of
// AWS.
func signedBy(a provider.Auth, service string) provider.Auth {
	a.Method, a.Service = provider.MethodAWS, service
	a.KeyAlternatives = []string{"access_key_id", "secret_access_key", "role_arn", "auth_type"}
	return a
}

func awsOptions() []provider.Option {
	return []provider.Option{
		{Name: "region", Default: "us-east-1", Host: provider.HostRegion, Doc: "AWS region"},
		{Name: "access_key_id", Doc: "access key for signing requests; defaults to the key"},
		{Name: "secret_access_key", Doc: "secret of the access key"},
		{Name: "session_token", Doc: "token of a temporary access key"},
		{Name: "role_arn", Doc: "role to assume first"},
		{Name: "external_id", Doc: "external id for assuming the role"},
		{Name: "auth_type", Values: []string{"accessKey", "assumedRole", "serviceRole", "apiKey"},
			Doc: "accessKey, assumedRole, apiKey, or serviceRole: the role of the gateway's machine, only for managed providers; by default it follows from the other options"},
	}
}

// bedrockOptions returns the options of batches, whose input and results are in a bucket.
// https://docs.aws.amazon.com/bedrock/latest/userguide/batch-inference.html
func bedrockOptions() []provider.Option {
	return []provider.Option{
		{Name: "s3_bucket", Doc: "bucket of Amazon S3 for batches, in the region; the access key reads and writes it"},
		{Name: "batch_role_arn", Doc: "role with which Bedrock reads and writes the bucket"},
		{Name: "kms_key_id", Alias: "server_side_encryption_kms_key_id", Doc: "key of AWS KMS that encrypts what batches put into the bucket"},
		{Name: "s3_url", Doc: "address of S3, such as a VPC endpoint, checked like a custom host; by default that of the region"},
		{Name: "bedrock_url", Doc: "address of Bedrock's control plane, checked like a custom host; by default that of the region"},
	}
}

func sagemakerOptions() []provider.Option {
	var list []provider.Option
	for _, o := range [][2]string{
		{"custom_attributes", "Custom-Attributes"}, {"target_model", "Target-Model"}, {"target_variant", "Target-Variant"},
		{"target_container_hostname", "Target-Container-Hostname"}, {"inference_id", "Inference-Id"},
		{"enable_explanations", "Enable-Explanations"}, {"inference_component", "Inference-Component"}, {"session_id", "Session-Id"},
	} {
		list = append(list,
			provider.Option{Name: "amzn_sagemaker_" + o[0], Header: "X-Amzn-Sagemaker-" + o[1], Doc: "as the header of that name"})
	}
	return list
}

// bedrockDialects returns the dialects of a model, which is named by id,
// inference profile or an ARN with either.
func bedrockDialects(model string) []api.Dialect {
	if strings.Contains(model, "anthropic.claude") {
		return []api.Dialect{api.DialectConverse, api.DialectMessages, api.DialectInvoke}
	}
	return []api.Dialect{api.DialectConverse}
}

// unescaped undoes one level of escaping: ARNs are often escaped as in a path.
func unescaped(model string) string {
	if plain, err := url.PathUnescape(model); err == nil {
		return plain
	}
	return model
}

// bedrockShapes returns the rules for bodies of the messages API in
// InvokeModel.
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html
func bedrockShapes() map[api.Operation]provider.BodyRule {
	shape := provider.BodyRule{
		Drop:  []string{"model", "stream"},
		Set:   map[string]string{"anthropic_version": `"` + bedrockVersion + `"`},
		Betas: "anthropic_beta",
		// Only the vendor itself stores conversations. Official clients know
		// the code and then send complete conversations.
		Refuse: map[string]string{"thread": "thread_unsupported_request"},
	}
	return map[api.Operation]provider.BodyRule{api.Messages: shape, api.Messages.Streamed(): shape, api.CountTokens: {Translate: true}}
}

// bedrockPath returns a path with the model's own id for token counting, which
// profiles do not support.
// https://docs.aws.amazon.com/bedrock/latest/userguide/count-tokens.html
func bedrockPath(op api.Operation, model string) string {
	if op != api.CountTokens && op != api.ConverseCount {
		return ""
	}
	return "/model/" + strings.ReplaceAll(url.PathEscape(converse.Foundation(unescaped(model))), ":", "%3A") + "/count-tokens"
}

func mantleDialects(model string) []api.Dialect {
	if strings.Contains(model, "anthropic.") {
		return []api.Dialect{api.DialectMessages}
	}
	return openaiDialects(model)
}

// arnRegion returns the region of an ARN of Bedrock. Profiles and deployments exist
// in their region only.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
func arnRegion(model string) string {
	if !strings.HasPrefix(model, "arn") {
		return ""
	}
	parts := strings.SplitN(unescaped(model), ":", 5)
	if len(parts) < 5 || parts[0] != "arn" || parts[1] != "aws" && parts[1] != "aws-us-gov" || parts[2] != "bedrock" {
		return ""
	}
	return parts[3]
}

// containerStatus returns the status of the container from the body of a host's
// error.
// https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html#API_runtime_InvokeEndpoint_Errors
func containerStatus(status int, body []byte) int {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return status
	}
	original, _ := v.Get("OriginalStatusCode")
	if n, ok := original.Int(); ok && n >= 400 && n <= 599 {
		return int(n)
	}
	return status
}
