package pricing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"modelgate/internal/model/catalog"
)

// Config reads a pricing_config: the prices of one model, in US cents per token or
// unit. It returns nil if the config has no price. Ignored are the fields that
// have no effect. The error names the field.
func Config(raw json.RawMessage) (p *catalog.Price, ignored []string, err error) {
	c := config{price: catalog.Price{NoInput: true, NoOutput: true}}
	fields, err := object(raw, "pricing_config")
	if err != nil || fields == nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "type", "currency":
			if err := constant(name, value, map[string]string{"type": "static", "currency": "USD"}[name]); err != nil {
				return nil, nil, err
			}
		case "pay_as_you_go":
			err = c.readPrices(value)
		case "batch_config":
			err = c.readBatch(value)
		default:
			if !empty(value) {
				c.ignored = append(c.ignored, name)
			}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	p, err = c.finish()
	return p, c.ignored, err
}

// config collects the prices of a pricing_config, in picodollars.
type config struct {
	price        catalog.Price
	given, batch map[catalog.Kind]catalog.Rate
	units        catalog.UnitPrices
	ignored      []string
}

// tokenFields are the prices of tokens, and unitFields those in additional_units.
var (
	tokenFields = map[string]catalog.Kind{
		"request_token": catalog.Input, "response_token": catalog.Output,
		"cache_read_input_token": catalog.CachedInput, "cache_write_input_token": catalog.CacheWrite5m,
		"request_audio_token": catalog.InputAudio, "response_audio_token": catalog.OutputAudio,
		"request_image_token": catalog.InputImage, "response_image_token": catalog.OutputImage,
	}
	unitFields = map[string]catalog.Kind{"cache_write_1h": catalog.CacheWrite1h, "thinking_token": catalog.Reasoning}
)

func (c *config) readPrices(raw json.RawMessage) error {
	const path = "pay_as_you_go"
	fields, err := object(raw, path)
	if err != nil {
		return err
	}
	c.given = make(map[catalog.Kind]catalog.Rate)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name]; name {
		case "additional_units":
			err = c.readUnits(path+"."+name, value)
		case "image":
			err = c.readImages(path+"."+name, value)
		default:
			kind, known := tokenFields[name]
			err = c.readRate(path+"."+name, value, kind, known, c.given)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *config) readUnits(path string, raw json.RawMessage) error {
	fields, err := object(raw, path)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		kind, known := unitFields[name]
		if err == nil {
			err = c.readRate(path+"."+name, fields[name], kind, known, c.given)
		}
	}
	return err
}

func (c *config) readBatch(raw json.RawMessage) error {
	const path = "batch_config"
	fields, err := object(raw, path)
	if err != nil {
		return err
	}
	c.batch = make(map[catalog.Kind]catalog.Rate)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		kind, known := tokenFields[name]
		if err := c.readRate(path+"."+name, fields[name], kind, known, c.batch); err != nil {
			return err
		}
	}
	return nil
}

// readRate reads {"price": 0.0002}, cents per token, into a map of rates. A price
// without effect is ignored by name.
func (c *config) readRate(path string, raw json.RawMessage, kind catalog.Kind, known bool, into map[catalog.Kind]catalog.Rate) error {
	cents, ok, err := price(path, raw, maxCents)
	switch {
	case err != nil || !ok:
		return err
	case !known:
		if cents > 0 {
			c.ignored = append(c.ignored, path)
		}
		return nil
	}
	into[kind] = catalog.Rate(math.Round(cents * picoPerCent))
	return nil
}

// readImages reads the prices of images in cents, by quality and size.
func (c *config) readImages(path string, raw json.RawMessage) error {
	qualities, err := object(raw, path)
	if err != nil {
		return err
	}
	for _, quality := range slices.Sorted(maps.Keys(qualities)) {
		sizes, err := object(qualities[quality], path+"."+short(quality))
		if err != nil {
			return err
		}
		for _, size := range slices.Sorted(maps.Keys(sizes)) {
			at := path + "." + short(quality) + "." + short(size)
			cents, ok, err := price(at, sizes[size], maxImageCents)
			if err != nil {
				return err
			}
			if !ok || cents == 0 {
				continue // the files have zeros for unknown
			}
			if c.units.Images == nil {
				c.units.Images = make(map[string]catalog.NanoDollars)
			}
			if len(c.units.Images) == maxImages {
				return fmt.Errorf("%s: more than %d prices of images", at, maxImages)
			}
			c.units.Images[imageName(quality, size)] = catalog.NanoDollars(math.Round(cents * nanoPerCent))
		}
	}
	return nil
}

// imageName returns the name of a quality and size in a price book; "default" is
// any.
func imageName(quality, size string) string {
	if quality == "default" {
		quality = ""
	}
	if size == "default" {
		size = ""
	}
	if quality == "" || size == "" {
		return quality + size
	}
	return quality + "/" + size
}

// finish returns the price, nil if there is none.
func (c *config) finish() (*catalog.Price, error) {
	p := &c.price
	_, in := c.given[catalog.Input]
	_, out := c.given[catalog.Output]
	p.NoInput, p.NoOutput = !in, !out
	p.Rates = catalog.RatesOf(c.given)
	if c.units.Images != nil {
		p.Units = &c.units
	}
	if len(c.given) == 0 && p.Units == nil {
		return nil, nil
	}
	for _, kind := range []catalog.Kind{catalog.Input, catalog.Output} {
		rate, ok := c.batch[kind]
		if !ok || p.Rates[kind] == 0 {
			continue
		}
		percent := math.Round(float64(rate) / float64(p.Rates[kind]) * 100)
		if percent < 1 || percent > 100 || p.Batch != 0 && p.Batch != int(percent) {
			p.Batch = 0
			c.ignored = append(c.ignored, "batch_config")
			break
		}
		p.Batch = int(percent)
	}
	return p, nil
}

const (
	maxCents      = 100     // per token: a dollar
	maxImageCents = 100_000 // per image
	maxImages     = 100     // prices of images of a model
	picoPerCent   = 1e10
	nanoPerCent   = 1e7
)

// price reads {"price": n}. It is false without a number.
func price(path string, raw json.RawMessage, most float64) (n float64, ok bool, err error) {
	fields, err := object(raw, path)
	if err != nil || empty(fields["price"]) {
		return 0, false, err
	}
	var f float64
	if json.Unmarshal(fields["price"], &f) != nil || f < 0 || f > most {
		return 0, false, fmt.Errorf("%s.price must be a number from 0 to %v cents", path, most)
	}
	return f, true, nil
}

// object reads a JSON object; null is an empty one.
func object(raw json.RawMessage, path string) (fields map[string]json.RawMessage, err error) {
	if empty(raw) {
		return nil, nil
	}
	if json.Unmarshal(raw, &fields) != nil {
		return nil, fmt.Errorf("%s must be an object", path)
	}
	return fields, nil
}

func empty(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null" || string(raw) == "{}"
}

// constant returns an error unless value is the string want or null.
func constant(path string, value json.RawMessage, want string) error {
	var s string
	if empty(value) || json.Unmarshal(value, &s) == nil && strings.EqualFold(s, want) {
		return nil
	}
	return fmt.Errorf("%s must be %q", path, want)
}

// short limits the length of a name in errors.
func short(name string) string { return name[:min(len(name), 64)] }
