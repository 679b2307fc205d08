// Package replicate is the dialect of Replicate's predictions.
//
// It guarantees that the parameters which models there have in common, text,
// images and sampling, reach them, and that everything else is recorded as
// dropped. Inputs differ between models; the names are those of the language
// and image models that Replicate itself maintains. A prediction is a job: it
// is polled by pipeline, and its path is in the provider table.
//
// https://replicate.com/docs/reference/http
package replicate

import (
	"regexp"

	"modelgate/api"
	"modelgate/internal/dialect"
)

// Dialect is the dialect as providers see it.
type Dialect struct{}

var (
	_ dialect.ProviderCodec       = Dialect{}
	_ dialect.OperationTranslator = Dialect{}
	_ dialect.JobReader           = Dialect{}
)

const name = string(api.DialectReplicate)

// version matches the id of a version, by itself or after a model's name.
var version = regexp.MustCompile(`^(?:.*:)?([0-9a-f]{64})$`)

// Version returns the version in a model's name, empty for a deployment or a
// model that Replicate maintains.
func Version(model string) string {
	if m := version.FindStringSubmatch(model); m != nil {
		return m[1]
	}
	return ""
}
