package converse

import "modelgate/internal/model/llm"

// format is the protocol's name for a MIME type.
type format struct{ mime, word string }

// formats are the formats by kind of media. A name with several types is
// decoded as the first.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html
var formats = map[llm.MediaKind][]format{
	llm.Image: {
		{"image/png", "png"}, {"image/jpeg", "jpeg"}, {"image/jpg", "jpeg"}, {"image/gif", "gif"}, {"image/webp", "webp"},
	},
	llm.Document: {
		{"application/pdf", "pdf"}, {"text/csv", "csv"}, {"application/csv", "csv"},
		{"application/msword", "doc"}, {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"},
		{"application/vnd.ms-excel", "xls"}, {"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"},
		{"text/html", "html"}, {"text/plain", "txt"}, {"text/markdown", "md"}, {"text/x-markdown", "md"},
		// Other text formats are sent as plain text.
		{"application/json", "txt"}, {"application/xml", "txt"}, {"text/xml", "txt"},
	},
	llm.Video: {
		{"video/mp4", "mp4"}, {"video/quicktime", "mov"}, {"video/mov", "mov"}, {"video/x-matroska", "mkv"}, {"video/mkv", "mkv"},
		{"video/webm", "webm"}, {"video/x-flv", "flv"}, {"video/flv", "flv"}, {"video/mpeg", "mpeg"}, {"video/mpg", "mpg"},
		{"video/x-ms-wmv", "wmv"}, {"video/wmv", "wmv"}, {"video/3gpp", "three_gp"}, {"video/three_gpp", "three_gp"},
	},
	llm.Audio: {
		{"audio/mp3", "mp3"}, {"audio/mpeg", "mp3"}, {"audio/wav", "wav"}, {"audio/x-wav", "wav"}, {"audio/opus", "opus"},
		{"audio/aac", "aac"}, {"audio/x-aac", "x-aac"}, {"audio/flac", "flac"}, {"audio/mp4", "mp4"}, {"audio/ogg", "ogg"},
		{"audio/m4a", "m4a"}, {"audio/x-m4a", "m4a"}, {"audio/pcm", "pcm"}, {"audio/webm", "webm"}, {"audio/x-matroska", "mka"},
		{"audio/mka", "mka"}, {"audio/mkv", "mkv"}, {"audio/x-mpeg", "mpeg"}, {"audio/mpga", "mpga"},
	},
}

// typeOf returns the MIME type for a format name, empty if unknown.
func typeOf(kind llm.MediaKind, word string) string {
	for _, f := range formats[kind] {
		if f.word == word {
			return f.mime
		}
	}
	return ""
}

// wordOf returns the format name for a MIME type, empty if there is none.
func wordOf(kind llm.MediaKind, mime string) string {
	for _, f := range formats[kind] {
		if f.mime == mime {
			return f.word
		}
	}
	return ""
}
