package messages

import (
	"encoding/base64"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// DecodeCountRequest reads a token counting request.
// https://docs.claude.com/en/api/messages-count-tokens
func (d Dialect) DecodeCountRequest(body []byte) (*llm.Request, error) { return d.DecodeRequest(body) }

// EncodeCountResponse appends the response to it.
func (Dialect) EncodeCountResponse(dst []byte, tokens int64) []byte {
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("input_tokens")
	b.Int(tokens)
	b.Close('}')
	return b.Bytes()
}

// counted are the members of a request that are part of a token counting
// request.
var counted = []string{
	"messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "context_management", "mcp_servers",
	"anthropic_beta", "anthropic_version",
}

// EncodeCountRequest appends the body of a request to count the tokens of r.
// Bedrock expects the body of InvokeModel inside another body.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelTokensRequest.html
func (d Dialect) EncodeCountRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	body, fates, err := d.EncodeRequest(nil, r, to)
	if err != nil {
		return dst, nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	if profileOf(to).CountsInvoke {
		b.Name("input")
		b.Open('{')
		b.Name("invokeModel")
		b.Open('{')
		b.Name("body")
		b.String(base64.StdEncoding.EncodeToString(body))
		b.Close('}')
		b.Close('}')
	} else {
		b.Name("model")
		b.String(to.Model)
		if err := dialect.AppendMembers(&b, body, counted...); err != nil {
			return dst, nil, err
		}
	}
	b.Close('}')
	return b.Bytes(), fates, nil
}

// DecodeCountResponse reads the response to it.
func (Dialect) DecodeCountResponse(body []byte) (int64, error) {
	return dialect.ReadCount(body, "input_tokens", "inputTokens")
}
