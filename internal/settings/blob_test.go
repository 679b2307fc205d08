package settings_test

import (
	"errors"
	"strings"
	"testing"

	"modelgate/internal/settings"
)

func TestFilesAreKeptInABucketThatCanBeMeant(t *testing.T) {
	env := func(name string) (string, bool) { return "canary-" + name, name == "ID" || name == "KEY" }
	const good = "endpoint: \"https://s3.example.com\", bucket: logs, access_key: \"${ID}\", secret_key: \"${KEY}\""
	for _, tt := range []struct{ text, path string }{
		{"blob: {s3: {" + good + "}}", ""},
		{"blob: {s3: {" + good + ", region: eu-central-1, prefix: a/b, path_style: true}}\nexports: {keep_days: 30, max_size: 2 GB}", ""},
		{"blob: {}", ""},
		{"blob: {s3: {bucket: logs}}", "blob.s3.endpoint"},
		{"blob: {s3: {" + good + ", prefix: ../x}}", "blob.s3.prefix"},
		{"blob: {s3: {" + strings.Replace(good, "logs", "L", 1) + "}}", "blob.s3.bucket"},
		{"blob: {s3: {" + strings.Replace(good, "\"${KEY}\"", "canary-plain", 1) + "}}", "blob.s3.secret_key"},
		{"blob: {s3: {" + strings.Replace(good, "${ID}", "${NONE}", 1) + "}}", "blob.s3.access_key"},
		{"blob: {s3: {" + strings.Replace(good, ", secret_key: \"${KEY}\"", "", 1) + "}}", "blob.s3.secret_key"},
		{"exports: {keep_days: -1}", "exports.keep_days"},
		{"exports: {max_size: 1 KB}", "exports.max_size"},
	} {
		s, err := settings.Parse("modelgate.yaml", []byte(tt.text+"\n"), settings.SecretResolver{Env: env})
		if tt.path == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.text, err)
			} else if o := s.Blob.S3.Options(); s.Blob.S3.Configured() && (o.SecretKey.Reveal() != "canary-KEY" || o.AccessKey.Reveal() != "canary-ID") {
				t.Errorf("%s: keys are not opened", tt.text)
			}
			continue
		}
		f, ok := errors.AsType[*settings.FileError](err)
		if !ok || f.Path != tt.path || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.path)
		}
	}
}
