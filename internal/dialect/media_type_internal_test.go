package dialect

import (
	"encoding/base64"
	"strings"
	"testing"

	"modelgate/internal/model/llm"
)

func TestTypesOfMediaAreThoseOfTheirBytes(t *testing.T) {
	data := func(begin string) string {
		return base64.StdEncoding.EncodeToString([]byte(begin + strings.Repeat("\x00", 40)))
	}
	png, jpeg, webp, pdf := data("\x89PNG\r\n\x1a\n"), data("\xff\xd8\xff\xe0"), data("RIFF\x10\x00\x00\x00WEBP"), data("%PDF-1.7")
	for _, tt := range []struct {
		m    llm.Media
		want string
	}{
		{llm.Media{Kind: llm.Image, Type: "image/jpg", Data: jpeg}, "image/jpeg"}, {llm.Media{Kind: llm.Image, Type: "image/png", Data: jpeg}, "image/jpeg"},
		{llm.Media{Kind: llm.Image, Type: "image/jpeg", Data: png}, "image/png"}, {llm.Media{Kind: llm.Image, Type: "image/png", Data: webp}, "image/webp"},
		{llm.Media{Kind: llm.Document, Type: "application/octet-stream", Data: png}, "image/png"}, {llm.Media{Kind: llm.Document, Type: "text/plain", Data: pdf}, "application/pdf"},
		{llm.Media{Kind: llm.Image, Type: "IMAGE/JPG", URL: "https://h.example/a"}, "image/jpeg"}, {llm.Media{Kind: llm.Image, Type: "image/png", URL: "https://h.example/a"}, "image/png"},
		{llm.Media{Kind: llm.Image, Type: "image/heic", Data: data("\x00\x00\x00\x18ftypheic")}, "image/heic"}, {llm.Media{Kind: llm.Image, Type: "image/png", Data: "AAAA"}, "image/png"},
		{llm.Media{Kind: llm.Audio, Type: "audio/wav", Data: data("RIFF\x10\x00\x00\x00WAVE")}, "audio/wav"}, {llm.Media{Kind: llm.Image, Type: "image/png", Data: "not base64 at all!"}, "image/png"},
	} {
		if got := typeOf(&tt.m); got != tt.want {
			t.Errorf("%s of %.12s: %s, want %s", tt.m.Type, tt.m.Data, got, tt.want)
		}
	}
}
