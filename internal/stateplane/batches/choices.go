package batches

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/model/modelnames"
	"modelgate/internal/provider"
	"modelgate/internal/stateplane/vendorbatch"
)

// everywhere are the options that batches of all providers have.
var everywhere = []string{"model", "job_name"}

// checkChoices returns an error for an option of a request that batches of the vendor do not
// have, or that the settings of the provider decide.
func checkChoices(v *vendorbatch.Vendor, t *provider.Target, given map[string]string) error {
	if model := given["model"]; model != "" {
		if err := t.CheckModel(model); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(everywhere, name) {
			continue
		}
		if !slices.Contains(v.Choices, name) {
			return apierr.New(apierr.Invalid, "%.60q is not an option of batches at %s, which has %s; leave it out", name, t.Label(),
				strings.Join(slices.Concat(everywhere, v.Choices), ", ")).WithParam(name).WithCode("unknown_parameter")
		}
		if set := settingOf(v, t, name); set != "" && set != given[name] {
			return apierr.New(apierr.Invalid, "the settings of the provider %s decide about %s; leave it out", t.Label(), name).
				WithParam(name).WithCode("option_fixed")
		}
	}
	return nil
}

// settingOf returns what the provider's own settings have for an option of requests.
func settingOf(v *vendorbatch.Vendor, t *provider.Target, name string) string {
	if name == "role_arn" { // the provider's own is a role of the gateway
		name = "batch_role_arn"
	}
	if !slices.Contains(v.Settings, name) {
		return ""
	}
	return t.Option(name)
}

// optionsOf returns the options of a batch: those of its provider, and what the request chose.
func optionsOf(v *vendorbatch.Vendor, t *provider.Target, given map[string]string) map[string]string {
	all := maps.Clone(given)
	if all == nil {
		all = make(map[string]string, len(v.Settings))
	}
	for _, name := range v.Settings {
		if set := t.Option(name); set != "" {
			all[name] = set
		}
	}
	return all
}

// lineSource returns the lines of an input, each time from the first.
type lineSource = func() iter.Seq2[vendorbatch.Line, error]

// enabledOnly yields lines up to the first whose model is not enabled for the provider. Lines of a
// batch that names a model need none.
func enabledOnly(lines lineSource, t *provider.Target, model string) lineSource {
	if t.Models == nil || model != "" {
		return lines
	}
	return func() iter.Seq2[vendorbatch.Line, error] {
		return func(yield func(vendorbatch.Line, error) bool) {
			for line, err := range lines() {
				if err == nil {
					err = checkModel(&line, t)
				}
				if !yield(line, err) || err != nil {
					return
				}
			}
		}
	}
}

// checkModel returns an error for a line whose models are not all enabled for the provider.
func checkModel(line *vendorbatch.Line, t *provider.Target) error {
	models, err := modelnames.JSON(line.Body)
	if err == nil && len(models) == 0 {
		models = []string{""} // which is on no list
	}
	for _, m := range models {
		if err == nil {
			err = t.CheckModel(m)
		}
	}
	if err == nil {
		return nil
	}
	param := "body.model"
	return &vendorbatch.Errors{Object: "list", Data: []vendorbatch.LineError{{
		Code: provider.CodeModelRefused, Message: err.Error(), Param: &param, Line: &line.Number,
	}}}
}
