// Package pricing keeps the prices of providers up to date from files outside of
// the program.
//
// A [Keeper] reads the file of each provider from its sources in turn and keeps it
// for an hour. It guarantees that a file is taken completely or not at all, that
// the last good prices stay if every source fails, and that nothing waits for it.
// It does not publish prices: see server.
package pricing

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"modelgate/internal/model/catalog"
)

// Limits of a file.
const (
	maxFile   = 8 << 20 // bytes
	maxModels = 20_000
	maxName   = 256 // bytes of the name of a model
)

// File is the content of a pricing file: the prices of a provider.
type File struct {
	Rows    []catalog.Price
	Unknown int            // models without a price
	Ignored map[string]int // fields without effect, with the number of models that have them
}

// ParseFile reads the pricing file of a provider, a JSON object of models with their
// pricing_config in cents. The entry "default" is a template and prices nothing.
// Models without a price stay unknown. An error names provider, model and field.
func ParseFile(provider string, data []byte) (*File, error) {
	models, err := readModels(provider, data)
	if err != nil {
		return nil, err
	}
	f := &File{Ignored: make(map[string]int)}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		if name == "default" {
			continue
		}
		fields, err := object(models[name], "the entry")
		if err != nil {
			return nil, fmt.Errorf("%s: model %q: %w", provider, short(name), err)
		}
		p, ignored, err := Config(fields["pricing_config"])
		if err != nil {
			return nil, fmt.Errorf("%s: model %q: pricing_config: %w", provider, short(name), err)
		}
		if !empty(fields["custom_pricing"]) {
			ignored = append(ignored, "custom_pricing")
		}
		for _, field := range ignored {
			f.Ignored[field]++
		}
		if p == nil {
			f.Unknown++
			continue
		}
		p.Provider, p.Model = provider, name
		f.Rows = append(f.Rows, *p)
	}
	return f, nil
}

// readModels reads a JSON object of models.
func readModels(provider string, data []byte) (map[string]json.RawMessage, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: the file is longer than %d MB", provider, maxFile>>20)
	}
	var models map[string]json.RawMessage
	if err := json.Unmarshal(data, &models); err != nil || models == nil {
		return nil, fmt.Errorf("%s: the file must be a JSON object of models", provider)
	}
	if len(models) > maxModels {
		return nil, fmt.Errorf("%s: the file has more than %d models", provider, maxModels)
	}
	for name := range models {
		if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
			return nil, fmt.Errorf("%s: model %q must have a name of 1 to %d bytes without control characters", provider, short(name), maxName)
		}
	}
	return models, nil
}

// parseModels reads the capabilities file of a provider and returns the models that
// it lists, sorted. Ignored are the fields that have no effect.
func parseModels(provider string, data []byte) (names []string, ignored map[string]int, err error) {
	models, err := readModels(provider, data)
	if err != nil {
		return nil, nil, err
	}
	ignored = make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		var fields map[string]json.RawMessage
		if name == "default" || name == "name" || name == "description" {
			continue
		}
		if json.Unmarshal(models[name], &fields) != nil {
			return nil, nil, fmt.Errorf("%s: model %q: the entry must be an object", provider, short(name))
		}
		names = append(names, name)
		for field, value := range fields {
			if !empty(value) {
				ignored[short(field)]++
			}
		}
	}
	return names, ignored, nil
}
