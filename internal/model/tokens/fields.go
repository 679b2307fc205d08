package tokens

import (
	"bytes"

	"modelgate/internal/format/jsonedit"
)

// kindOf returns what a string in a field is: text unless the field is known. Names of
// roles and identifiers are of the kind message.
func kindOf(key []byte) piece {
	switch string(key) {
	case "role", "model", "type", "id", "tool_call_id", "call_id", "tool_use_id", "toolUseId":
		return message
	case "signature", "thoughtSignature", "thought_signature", "encrypted_content", "redactedContent":
		return sealed
	case "image_url", "video_url", "audio_url", "file_url", "document_url", "image", "images", "image_base64", "video", "mask",
		"file_data", "file_id", "b64_json", "fileUri", "file_uri":
		return media
	case "url", "uri", "data", "bytes", "fileId":
		return media
	}
	return text
}

// needsSource reports whether a field has media in an object for media only.
func needsSource(key []byte) bool {
	switch string(key) {
	case "url", "uri", "data", "bytes", "fileId":
		return true
	}
	return false
}

// isSource reports whether an object in a field is one for media.
func isSource(key []byte) bool {
	switch string(key) {
	case "image_url", "video_url", "audio_url", "input_audio", "file", "source", "inlineData", "inline_data", "fileData", "file_data":
		return true
	}
	return false
}

// isTools reports whether a field defines tools.
func isTools(key []byte) bool {
	switch string(key) {
	case "tools", "toolConfig", "functions":
		return true
	}
	return false
}

// isData reports whether a field whose value begins with next has data that a model reads
// as JSON: definitions of tools, their arguments and results, schemas, and documents.
func isData(key []byte, next byte) bool {
	switch string(key) {
	case "tools", "functions", "toolConfig", "arguments", "args", "parameters", "schema", "json", "properties":
		return true
	case "input", "response", "data":
		return next == '{'
	}
	return false
}

// saysText reports whether a member of an object for media says that it holds text.
func saysText(key, value []byte) bool {
	switch string(key) {
	case "type":
		return string(value) == "text"
	case "mimeType", "mime_type", "media_type":
		return bytes.HasPrefix(value, []byte("text/")) || bytes.HasPrefix(value, []byte("application/json"))
	}
	return false
}

// isAddress reports whether a string in a field for media can be where it is or what it
// is: encoded, without spaces.
func isAddress(s []byte) bool {
	return len(s) > 0 && bytes.IndexByte(s, ' ') < 0 && !bytes.HasPrefix(s, []byte("data:text/"))
}

// unescape returns the text of a JSON string, or the string itself if it is invalid.
func unescape(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	quoted := append(append(append(make([]byte, 0, len(s)+2), '"'), s...), '"')
	v, err := jsonedit.ParseValue(quoted)
	if err != nil {
		return s
	}
	plain, _ := v.TextBytes()
	return plain
}
