// Package replicate is the dialect of Replicate's predictions.
//
// It promises that what models there can be asked in common, words, images and
// sampling, reaches them, and that what has no place is told. A prediction is a
// job: following it, and which model needs which address, is left to the pipeline
// and to the provider table. Inputs differ by model; the names are those of the
// models of language and images that Replicate itself looks after.
//
// https://replicate.com/docs/reference/http
package replicate

import (
	"regexp"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
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

// Version returns the version that a model's name names, empty when it names a
// model that Replicate looks after or a deployment.
func Version(model string) string {
	if m := version.FindStringSubmatch(model); m != nil {
		return m[1]
	}
	return ""
}

// text returns a member that is a string, empty when there is none.
func text(v jsonedit.Value, name string) string {
	member, _ := v.Get(name)
	s, _ := member.Text()
	return s
}
